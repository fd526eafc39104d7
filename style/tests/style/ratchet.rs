//! `style/ratchet.txt` holds the maximum number of violations of a rule at each place. If a place
//! has no line, its maximum is 0. Rules that count by file have tables of their own.
//!
//! If the number of violations is below the maximum, the test fails, and `make ratchet` must lower
//! the maximum. So the number can't grow again. Only a person can raise a maximum.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};

use crate::tree;

const FILE: &str = "style/ratchet.txt";
/// The maximum number of violations that the message about a place lists.
const LISTED: usize = 60;
/// A test locks this mutex while it changes the table's file, because tests run in parallel.
static WRITING: Mutex<()> = Mutex::new(());

/// The number and the list of a rule's violations at a place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    pub number: usize,
    /// The violations, as `file:line: description`.
    pub faults: Vec<String>,
}

/// The violations of a rule, by place.
pub type Counts = BTreeMap<String, Count>;

/// Counts another violation at `place`.
pub fn add(counts: &mut Counts, place: &str, fault: String) {
    let count = counts.entry(place.to_owned()).or_default();
    count.number += 1;
    count.faults.push(fault);
}

/// Returns the numbers in the table for a rule, by place.
fn lines_of<'t>(table: &'t str, rule: &str) -> BTreeMap<&'t str, usize> {
    let mut lines = BTreeMap::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(place), Some(number)) = (words.next(), words.next(), words.next())
            && name == rule
        {
            lines.insert(place, number.parse().unwrap());
        }
    }
    lines
}

/// Compares `counts` with the table. Returns messages about the numbers that grew, and the counts
/// that fell.
fn judge(
    (rule, remedy, counts): (&str, &str, &Counts),
    file: &str,
    table: &str,
) -> (Vec<String>, Counts) {
    let (allowed, mut complaints, mut fell) = (lines_of(table, rule), Vec::new(), Counts::new());
    for (place, count) in counts {
        let most = allowed.get(place.as_str()).copied().unwrap_or(0);
        if count.number > most {
            let listed = count.faults.iter().take(LISTED).map(|fault| format!("\n  {fault}"));
            complaints.push(format!(
                "{rule} {place}: {}, at most {most} may be ({file}). {remedy}{}",
                count.number,
                listed.collect::<String>()
            ));
        }
    }
    for (&place, &most) in &allowed {
        let count = counts.get(place).cloned().unwrap_or_default();
        if count.number < most {
            fell.insert(place.to_owned(), count);
        }
    }
    (complaints, fell)
}

/// Returns the table with the lower numbers in `fell`. Removes lines with the number 0.
fn lowered(table: &str, rule: &str, fell: &Counts) -> String {
    let mut lines = String::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let new = words.get(1).filter(|_| words[0] == rule).and_then(|place| fell.get(*place));
        match new.map(|count| count.number) {
            None => lines.push_str(&format!("{line}\n")),
            Some(0) => {}
            Some(number) => lines.push_str(&format!("{rule} {} {number}\n", words[1])),
        }
    }
    lines
}

/// Asserts that the counts equal the numbers in the table. Each element of `rules` is the name of a
/// rule, the remedy that is shown if a number grew, and the rule's counts.
pub fn hold(rules: &[(&str, &str, &Counts)]) {
    hold_in(FILE, rules);
}

/// Asserts the same as [`hold`], for the table in `file`.
pub fn hold_in(file: &str, rules: &[(&str, &str, &Counts)]) {
    let path = tree::root().join(file);
    let is_to_lower = std::env::var("UZRAM_RATCHET").is_ok_and(|set| set == "lower");
    let mut all = Vec::new();
    for &(rule, remedy, counts) in rules {
        let alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let table = fs::read_to_string(&path).unwrap();
        let (complaints, fell) = judge((rule, remedy, counts), file, &table);
        if is_to_lower {
            fs::write(&path, lowered(&table, rule, &fell)).unwrap();
        }
        drop(alone);
        counts.iter().for_each(|(place, count)| println!("{rule} {place} {}", count.number));
        all.extend(complaints);
        all.extend(fell.iter().filter(|_| !is_to_lower).map(|(place, count)| {
            let number = count.number;
            let remedy = format!("Lower the ratchet to {number} in {file}, or run `make ratchet`.");
            format!("{rule} {place}: {number} by now. {remedy}")
        }));
    }
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
}

#[cfg(test)]
fn planted(number: usize) -> Counts {
    let faults = (0..number).map(|nth| format!("a.rs:{nth}: bad")).collect();
    Counts::from([("a".to_owned(), Count { number, faults })])
}

#[test]
fn a_number_that_grew_is_told_with_its_faults() {
    let (complaints, fell) =
        judge(("rule", "Mend it.", &planted(3)), FILE, "# rule place\nrule a 2\n");
    let expected = "rule a: 3, at most 2 may be (style/ratchet.txt). Mend it.\n  a.rs:0: \
        bad\n  a.rs:1: bad\n  a.rs:2: bad";
    assert_eq!((complaints, fell.len()), (vec![expected.to_owned()], 0));
    assert_eq!(judge(("rule", "", &planted(1)), FILE, "other a 1\n").0.len(), 1);
}

#[test]
fn a_number_that_fell_is_to_be_written_down() {
    let table = "# about\nrule a 2\nrule b 4\nother a 2\n";
    let (complaints, fell) = judge(("rule", "", &planted(1)), FILE, table);
    assert_eq!((complaints.len(), fell.len(), fell["a"].number, fell["b"].number), (0, 2, 1, 0));
    assert_eq!(lowered(table, "rule", &fell), "# about\nrule a 1\nother a 2\n");
    let (complaints, fell) = judge(("rule", "", &planted(1)), FILE, "rule a 1\n");
    assert_eq!((complaints.len(), fell.len()), (0, 0));
}
