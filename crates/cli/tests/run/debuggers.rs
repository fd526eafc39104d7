//! Tests debuggers that run under the limit of the debugged program: they read and write the memory
//! of another process.

use crate::end_of;
use crate::injected::compiled;
use crate::programs::Programs;
use crate::support::Ended;
use std::thread;

/// Runs two processes. One process reads and writes all memory of the other process. At the end,
/// the memory of the other process must fall below 34 MiB.
fn is_seen(program: &str, way: &str, state: &str) -> Ended {
    end_of(&["--limit", "24M", "--"], &[program, way, state, "34"])
}

#[test]
fn debuggers_of_the_tree_see_data() {
    let programs = Programs::new();
    let program = compiled(&programs, "watched", &[]);
    for way in ["attach", "seize", "thread", "file"] {
        // A child that only computes would not detect that the debugger has closed the file. So the
        // child makes calls instead.
        let computes = if way == "file" { "calls" } else { "busy" };
        let states = [computes, "sleep", "pipe", "poll", "futex"];
        thread::scope(|scope| {
            let seen = states.map(|state| scope.spawn(|| is_seen(&program, way, state)));
            for (state, seen) in states.iter().zip(seen) {
                let ended = seen.join().unwrap();
                let expected = "peeked 0, read 0, copied 0, failed 0, child 0, back 1\n";
                assert_eq!(ended.out, expected, "{way} {state}: {ended:?}");
            }
        });
    }
}

#[test]
fn a_process_sees_its_own_memory_as_a_file() {
    let programs = Programs::new();
    let program = compiled(&programs, "ownmem", &[]);
    for backend in ["signal", "signal-mappings", "signal-remap"] {
        let ended = end_of(&["--limit", "24M", "--backend", backend, "--"], &[&program]);
        assert_eq!(
            (ended.out.as_str(), ended.code),
            ("0 wrong\n", Some(0)),
            "{backend}: {ended:?}"
        );
    }
}
