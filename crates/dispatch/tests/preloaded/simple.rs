//! Tests simple calls, which are issued without a signal. A program's output is the same with
//! simple, dispatched and native calls.

use crate::support::{Counts, Place};

/// The names of the call sites of simple.c: most name the instruction after the `syscall`. `other`
/// stands for an instruction that can't be moved to a tail. The site `pad` needs a pad, because the
/// address of its stub is in use.
const SHAPES: [&str; 5] = ["other", "cmp", "mov", "ret", "pad"];

/// Runs a test of simple.c for each shape.
fn run(test: &str) -> Vec<[Counts; 2]> {
    run_shapes(test, &SHAPES)
}

/// Runs a test of simple.c natively, with all calls dispatched, and with simple calls.
fn run_shapes(test: &str, shapes: &[&str]) -> Vec<[Counts; 2]> {
    let place = Place::new();
    let program = place.compile("simple");
    let run = |shape: &&str| {
        let dispatched = place.same(&[program.to_str().unwrap(), test, shape]);
        let line = format!("DISPATCH_SIMPLE=1 {} {test} {shape}", program.display());
        let simple = place.same_line(&line);
        assert_eq!(simple.pins, 0, "{test}, {shape}: {simple:?}");
        [dispatched, simple]
    };
    shapes.iter().map(run).collect()
}

/// Asserts that most calls were made without a signal.
fn most_are_simple(counts: &[[Counts; 2]]) {
    for [dispatched, simple] in counts {
        assert!(simple.calls < dispatched.calls / 2, "{simple:?}, without: {dispatched:?}");
    }
}

#[test]
fn registers_and_results_are_the_kernels() {
    most_are_simple(&run("results"));
}

#[test]
fn signals_find_the_program_at_its_call_or_behind_it() {
    run("storm");
}

#[test]
fn calls_that_wait_are_interrupted_and_restarted() {
    run("waits");
}

#[test]
fn threads_pin_the_blocks_of_their_calls() {
    most_are_simple(&run("threads"));
}

#[test]
fn children_have_the_jumps_of_their_parent() {
    run("forks");
}

#[test]
fn code_that_changes_is_the_programs() {
    run("changes");
    run("stubs");
}

#[test]
fn threads_make_calls_while_their_code_changes() {
    run("races");
}

#[test]
fn a_filter_refuses_at_the_site() {
    run("filter");
}

#[test]
fn sent_traps_and_bad_buffers_are_as_natively() {
    run("sent");
}

#[test]
fn a_stack_without_room_is_enough() {
    run("edge");
}

#[test]
fn a_signal_may_come_behind_each_instruction() {
    run_shapes("steps", &["other", "pad"]);
    // This test takes seconds, so some shapes are omitted. The omitted shapes differ from `cmp` by
    // one instruction.
    let place = Place::new();
    let program = place.compile("simple");
    let simple = place.same_line(&format!("DISPATCH_SIMPLE=1 {} steps cmp", program.display()));
    assert_eq!(simple.pins, 0, "{simple:?}");
}

#[test]
fn a_program_that_traps_itself_goes_on() {
    run("traps");
}
