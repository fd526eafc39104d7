//! Programs that restrict their own system calls (seccomp).

use crate::injected::compiled;
use crate::programs::Programs;
use crate::support::end;
use crate::{WAYS, end_of};
use std::process::Command;

#[test]
fn memory_stays_whatever_a_program_refuses_itself() {
    let programs = Programs::new();
    let program = compiled(&programs, "sandbox", &[]);
    for (restriction, is_left) in
        [("strict", true), ("narrow", true), ("wide", false), ("refused", false)]
    {
        let natively = end(Command::new(&program).arg(restriction));
        assert_eq!(natively.code, Some(4), "{natively:?}");
        for way in [WAYS[0], WAYS[2]] {
            let ended = end_of(way, &[&program, restriction]);
            assert_eq!(ended.out, natively.out, "{restriction} {way:?}: {ended:?}");
            assert_eq!(ended.code, natively.code, "{restriction} {way:?}: {ended:?}");
            let has_line = ended.err.contains("without a limit from now on");
            assert_eq!(has_line, is_left, "{restriction} {way:?}: {ended:?}");
        }
    }
}
