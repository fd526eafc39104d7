//! What may come of lists of events on several threads: what some order of them gives.

use std::collections::HashSet;
use std::hash::Hash;

/// The answers of each list's events, and the state in the end.
type Outcome<S, O> = (Vec<Vec<O>>, S);

/// Returns what every order of the lists' events gives, where each list keeps its own order. Each
/// event happens at once.
pub fn outcomes<S, E, O>(
    start: &S,
    lists: &[&[E]],
    apply: impl Fn(&mut S, &E) -> O,
) -> HashSet<Outcome<S, O>>
where
    S: Clone + Eq + Hash,
    O: Clone + Eq + Hash,
{
    let mut found = HashSet::new();
    let mut open = vec![(vec![Vec::new(); lists.len()], start.clone())];
    while let Some((answers, state)) = open.pop() {
        let mut is_end = true;
        for (nth, list) in lists.iter().enumerate() {
            let Some(event) = list.get(answers[nth].len()) else { continue };
            let (mut answers, mut state) = (answers.clone(), state.clone());
            answers[nth].push(apply(&mut state, event));
            open.push((answers, state));
            is_end = false;
        }
        if is_end {
            found.insert((answers, state));
        }
    }
    found
}
