//! Compares the table with the kernel, by real system calls. Each memory object lies directly
//! before an inaccessible page.
//!
//! For each case: (1) The ranges that the row describes must equal the objects of the case to the
//! byte. Objects that the call only reads are write-protected. The call must not fail with EFAULT,
//! which shows that the row describes all memory that the call needs. (2) If one object, or its
//! last byte, is inaccessible, the call must fail with EFAULT or return a smaller number. This
//! shows that the call touches all memory that the row describes. (3) Each argument that the case
//! does not set, and for which the row describes no memory, is the address of inaccessible memory.
//! The call must not fail with EFAULT, which shows that the row leaves out no argument.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, clippy::unwrap_used)]

use attempt::{Answer, attempt};
use calls::{Argument, spec, specs};
use std::collections::BTreeSet;
use testkit::calls::trial::{Case, EFAULT, Need, Spoil};
use testkit::calls::{all, spec_of};

mod attempt;
mod reported;

/// The minimum number of calls that the tests must try on any system.
const CALLS_LEAST: usize = 100;

/// The calls whose rows describe memory but that have no case, with the reasons.
const WITHOUT: &[(&str, &str)] = &[
    ("lookup_dcookie", "a number of a profiler's is looked up before; since Linux 6.7 it is gone"),
    ("reboot", "its text is read by whom nothing keeps from restarting the system any more"),
];

/// Returns whether the kernel lacks a call or refuses it, so that the call can't be tested.
fn is_refusal(answer: i64) -> bool {
    [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP]
        .iter()
        .any(|refusal| answer == -i64::from(*refusal))
}

/// Runs a case unchanged, and then once for each of its objects, with that object made
/// inaccessible. Returns the errors found in the row, or `None` if the case can't be tried on this
/// system.
fn faults(case: &Case) -> Option<Vec<String>> {
    let row = spec_of(case);
    let failed = |spoil, status| format!("{}: {spoil:?}: the child failed: {status}", case.0);
    let plain = match attempt(case, row, Spoil::Nothing) {
        Ok(answer) => answer,
        Err(status) => return Some(vec![failed(Spoil::Nothing, status)]),
    };
    if plain.is_left_out || is_refusal(plain.value) {
        println!("{}: left out ({})", case.0, plain.value);
        return None;
    }
    if plain.value == EFAULT {
        return Some(vec![format!("{}: EFAULT, though all that is reported is there", case.0)]);
    }
    let mut faults = Vec::new();
    match attempt(case, row, Spoil::Rest) {
        Ok(answer) if answer.value != EFAULT => {}
        other => faults.push(format!("{}: it has more arguments: {other:?}", case.0)),
    }
    for spoil in spoils(&plain) {
        match attempt(case, row, spoil) {
            Ok(answer) if answer.value == EFAULT || (0..plain.value).contains(&answer.value) => {}
            Ok(answer) => faults.push(format!(
                "{}: {spoil:?}: answers {}, as {} with all in place",
                case.0, answer.value, plain.value
            )),
            Err(status) => faults.push(failed(spoil, status)),
        }
    }
    Some(faults)
}

fn spoils(plain: &Answer) -> Vec<Spoil> {
    let each = plain.needs.iter().enumerate();
    each.flat_map(|(nth, need)| match need {
        Need::All => vec![Spoil::Closed(nth), Spoil::Short(nth)],
        Need::Part | Need::Unknown => vec![Spoil::Closed(nth)],
        Need::Maybe => vec![],
    })
    .collect()
}

#[test]
fn the_kernel_touches_what_rows_tell() {
    let (mut tried, mut wrong) = (BTreeSet::new(), Vec::new());
    let cases: Vec<&Case> = all().collect();
    for case in &cases {
        if let Some(faults) = faults(case) {
            tried.insert(calls::name(spec_of(case).number).unwrap());
            wrong.extend(faults);
        }
    }
    println!("{} cases, {} calls tried", cases.len(), tried.len());
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert!(tried.len() >= CALLS_LEAST, "only {tried:?}");
}

#[test]
fn every_row_that_names_memory_has_a_case() {
    let tried: BTreeSet<_> = all().map(|case| calls::name(spec_of(case).number).unwrap()).collect();
    let names_memory =
        |row: &&calls::SyscallSpec| row.arguments.iter().any(|of| *of != Argument::Plain);
    let without = specs().filter(names_memory).map(|row| calls::name(row.number).unwrap());
    let without: BTreeSet<_> = without.filter(|name| !tried.contains(name)).collect();
    assert_eq!(without, WITHOUT.iter().map(|(name, _)| *name).collect());
}

/// A row that describes too little or too much memory must be detected.
#[test]
fn a_wrong_row_is_found() {
    let uname = spec(libc::SYS_uname as usize).unwrap();
    let small: Case = ("uname", |trial| vec![trial.output(389)]);
    assert!(attempt(&small, uname, Spoil::Nothing).is_err(), "less memory than is reported");
    let large: Case = ("uname", |trial| vec![trial.output(391)]);
    assert!(attempt(&large, uname, Spoil::Nothing).is_err(), "more memory than is reported");
    let right: Case = ("uname", |trial| vec![trial.output(390)]);
    assert_eq!(attempt(&right, uname, Spoil::Nothing).unwrap().value, 0);
    assert_eq!(attempt(&right, uname, Spoil::Short(0)).unwrap().value, EFAULT);
    assert_eq!(attempt(&right, uname, Spoil::Closed(0)).unwrap().value, EFAULT);
}
