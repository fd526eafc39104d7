//! C programs that check details of dispatch. A program's output is the same with and without
//! dispatch.

use crate::support::{Counts, Place};
use std::fs;
use std::os::unix::fs::MetadataExt;

fn signals(test: &str) -> Counts {
    run("signals", test)
}

fn children(test: &str) -> Counts {
    run("children", test)
}

fn run(program: &str, test: &str) -> Counts {
    let place = Place::new();
    let program = place.compile(program);
    let (shown, _) = place.preloaded(&[program.to_str().unwrap(), test]);
    let ends = format!("end of {test}\n");
    let is_other = ["leaves", "execs"].contains(&test);
    assert!(is_other || shown.output.ends_with(&ends), "{shown:?}");
    place.same(&[program.to_str().unwrap(), test])
}

#[test]
fn handlers_run_on_the_stack_that_the_program_gave() {
    signals("altstack");
}

#[test]
fn a_jump_out_of_a_handler_leaves_nothing_behind() {
    signals("jump");
}

#[test]
fn calls_are_interrupted_and_restarted() {
    let counts = signals("restart");
    assert!(counts.given_up >= 4, "{counts:?}");
}

#[test]
fn handlers_nest_and_have_their_masks() {
    signals("nested");
}

#[test]
fn signals_of_ours_are_the_programs_too() {
    signals("sigsys");
}

#[test]
fn signals_of_ours_amid_returns_let_no_call_through() {
    let counts = signals("storm");
    assert!(counts.calls >= 60_000, "{counts:?}");
}

#[test]
fn faults_come_to_the_program() {
    signals("faults");
}

#[test]
fn calls_wait_with_masks_of_their_own() {
    signals("waits");
}

#[test]
fn a_filter_of_the_programs_has_its_signal() {
    signals("filter");
}

#[test]
fn thread_pointers_are_the_programs() {
    for test in ["own", "instruction", "children", "signals"] {
        run("pointer", test);
    }
    let place = Place::new();
    let program = place.compile("pointer");
    for test in ["own", "children", "signals"] {
        place.same_line(&format!("DISPATCH_BY_CALLS=1 {} {test}", program.display()));
    }
}

#[test]
fn rights_of_protection_keys_are_the_programs() {
    for test in ["allocated", "denied", "threads"] {
        run("keys", test);
    }
}

#[test]
fn every_kind_of_clone_goes_on_armed() {
    let counts = children("raw");
    // Each of the four children makes a hundred calls. The calls of the child with its own memory
    // are not counted.
    assert!(counts.begun >= 3 && counts.calls > 300, "{counts:?}");
}

#[test]
fn vfork_and_spawn_leave_the_parent_as_it_was() {
    let counts = children("vforks");
    assert!(counts.begun >= 9, "{counts:?}");
}

#[test]
fn registers_and_the_stack_stay_as_they_are() {
    let counts = children("registers");
    assert!(counts.calls > 1000, "{counts:?}");
}

#[test]
fn masks_go_on_to_a_new_program() {
    children("execs");
}

#[test]
fn memory_of_threads_is_given_back() {
    let counts = children("threads");
    assert!(counts.begun >= 301 && counts.ended >= 300, "{counts:?}");
}

#[test]
fn threads_signals_and_forks_at_once() {
    let counts = children("stress");
    assert!(counts.begun >= 16 && counts.forks >= 16 * 5, "{counts:?}");
}

#[test]
fn the_first_thread_may_end_first() {
    let counts = children("leaves");
    assert!(counts.ended >= 1, "{counts:?}");
}

#[test]
fn the_program_has_no_dispatch_of_its_own() {
    let place = Place::new();
    let program = place.compile("children");
    let (shown, _) = place.preloaded(&[program.to_str().unwrap(), "dispatch"]);
    let refused = format!("-1 {}\nend of dispatch\n", libc::EINVAL);
    assert_eq!(shown.output, refused);
}

#[test]
fn a_hook_answers_changes_and_brings() {
    let place = Place::new();
    let program = place.compile("children");
    let (shown, _) =
        place.preloaded(&["env", "DISPATCH_MEDDLES=1", program.to_str().unwrap(), "meddled"]);
    let user = fs::metadata("/proc/self").unwrap().uid();
    let expected = format!("4242 1\n{}\nmask:\nend of meddled\n", 4242 + user);
    assert_eq!(shown.output, expected);
}
