//! Models: structures whose results are compared with their expected behaviour.

use crate::quiet::caught;
use crate::shrink::shrink;
use crate::{Choices, seed};
use std::fmt::{Debug, Write};
use std::sync::LazyLock;

/// A structure and its expected behaviour.
///
/// An event refers to an object by its position among the current objects, never by a handle. An
/// event refers to contents by a number from which the contents are derived. So each sublist of a
/// list of events is a valid list of events.
pub trait Model: Sized {
    /// The parameters of the model, for example the geometry, sizes, and the requests for memory
    /// that are refused.
    type Setup: Clone + Debug;
    /// An operation on the structure.
    type Event: Clone + Debug;
    /// The statistics of a whole run, for tests to check.
    type Report;

    fn setup(choices: &mut Choices) -> Self::Setup;

    /// Creates the model. Returns `None` if the set-up causes the creation to fail.
    fn new(setup: &Self::Setup) -> Option<Self>;

    fn draw(&self, choices: &mut Choices) -> Self::Event;

    /// Applies `event` to the structure and to its expected behaviour, and compares the results.
    fn apply(&mut self, event: &Self::Event);

    /// Compares all contents, and checks the invariants of the structure.
    fn check(&mut self);

    /// Removes all contents, and asserts that nothing remains.
    fn finish(self) -> Self::Report;

    /// Returns simpler events to try instead of an event, for example with half the length.
    fn simpler(_: &Self::Event) -> Vec<Self::Event> {
        Vec::new()
    }
}

/// The number of events in a run, and the times of the checks.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seed: u64,
    /// The number of events.
    pub steps: usize,
    /// Everything is checked after each of the first `first` events.
    pub first: usize,
    /// After the first `first` events, everything is checked once in `every` events.
    pub every: usize,
}

/// Draws and applies events until the choices are used up. Adds each drawn event to `events`.
fn explore<M: Model>(
    setup: &M::Setup,
    choices: &mut Choices,
    run: Run,
    events: &mut Vec<M::Event>,
) -> Option<M::Report> {
    let mut model = M::new(setup)?;
    while !choices.is_over() && events.len() < run.steps {
        let event = model.draw(choices);
        events.push(event.clone());
        model.apply(&event);
        if events.len() <= run.first || events.len().is_multiple_of(run.every) {
            model.check();
        }
    }
    model.check();
    Some(model.finish())
}

/// Applies a list of events that once failed, for a regression test.
pub fn replay<M: Model>(setup: M::Setup, events: &[M::Event]) {
    let Some(mut model) = M::new(&setup) else { return };
    let every = events.len().div_ceil(64);
    for (nth, event) in events.iter().enumerate() {
        model.apply(event);
        if nth % every == 0 {
            model.check();
        }
    }
    model.check();
    model.finish();
}

/// Draws and applies events from a seed. After a failure, reduces the list of events, and panics
/// with the shorter list. Returns `None` if the set-up causes the creation to fail.
pub fn run<M: Model>(setup: M::Setup, run: Run) -> Option<M::Report> {
    let by = format!("UZRAM_SEED={}", run.seed);
    find::<M>(setup, Choices::seeded(run.seed), run, &by)
}

/// Does the same as [`run`], with a random set-up.
pub fn run_any<M: Model>(own_seed: u64, steps: usize) -> Option<M::Report> {
    let seed = seed(own_seed);
    let mut choices = Choices::seeded(seed);
    let setup = M::setup(&mut choices);
    let run = Run { seed, steps, first: steps / 20, every: steps / 20 + 1 };
    find::<M>(setup, choices, run, &format!("UZRAM_SEED={seed}"))
}

/// The body of a fuzz target. If the environment variable `UZRAM_SHRINK` is set, a failing list of
/// events is reduced. Otherwise the failure is passed to the fuzzer at once.
pub fn fuzz<M: Model>(bytes: &[u8]) {
    static SHRINKS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("UZRAM_SHRINK").is_some());
    let mut choices = Choices::of_bytes(bytes);
    let setup = M::setup(&mut choices);
    let run = Run { seed: 0, steps: usize::MAX, first: 0, every: 64 };
    if *SHRINKS {
        find::<M>(setup, choices, run, "these bytes");
    } else {
        explore::<M>(&setup, &mut choices, run, &mut Vec::new());
    }
}

fn find<M: Model>(setup: M::Setup, mut choices: Choices, run: Run, by: &str) -> Option<M::Report> {
    let mut events = Vec::new();
    match caught(|| explore::<M>(&setup, &mut choices, run, &mut events)) {
        Ok(report) => report,
        Err(failure) => panic!("{}", explained::<M>(&setup, events, &failure, by)),
    }
}

/// Returns a description of the failure, with the shortest failing list of events that was found.
fn explained<M: Model>(setup: &M::Setup, events: Vec<M::Event>, failure: &str, by: &str) -> String {
    let fails = |events: &[M::Event]| caught(|| replay::<M>(setup.clone(), events)).err();
    let all = events.len();
    let mut text = format!("{by} fails at event {all}: {failure}\n");
    if fails(&events).is_none() {
        text += "The same events do not fail again: something else decides, too.\n";
        return text;
    }
    let shrunk = shrink(events, M::simpler, |events| fails(events).is_some());
    let (left, tries) = (shrunk.events.len(), shrunk.tries);
    let last = fails(&shrunk.events).unwrap_or_default();
    let _ = writeln!(text, "Cut down to {left} of {all} events in {tries} tries: {last}");
    text + &pasted::<M>(setup, &shrunk.events)
}

/// Returns the text of a test's body that applies `events`.
fn pasted<M: Model>(setup: &M::Setup, events: &[M::Event]) -> String {
    let name = std::any::type_name::<M>();
    let (module, name) = name.rsplit_once("::").unwrap_or(("self", name));
    let mut text = format!("use {module}::{{*, Event::*}};\nreplay::<{name}>(\n    {setup:?},\n");
    text += "    &[\n";
    for event in events {
        let _ = writeln!(text, "        {event:?},");
    }
    text + "    ],\n);\n"
}
