//! Tests programs that restrict their own system calls (seccomp).

use crate::injected::compiled;
use crate::programs::Programs;
use crate::support::end;
use crate::{WAYS, end_of};
use std::process::Command;

#[test]
fn memory_stays_whatever_a_program_refuses_itself() {
    let programs = Programs::new();
    let program = compiled(&programs, "sandbox", &[]);
    for (restriction, is_left) in [
        ("strict", true),
        ("narrow", true),
        ("heap", true),
        ("number", true),
        ("probe", false),
        ("host", false),
        ("child", false),
        ("wide", false),
    ] {
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

#[test]
fn programs_get_a_host_if_the_filter_allows_it() {
    let programs = Programs::new();
    let program = compiled(&programs, "sandbox", &[]);
    for (restriction, has_host, is_confined) in [
        ("wide", true, false),
        ("refused", true, false),
        ("probe", true, false),
        ("host", false, true),
        // The filter applies to the child, but not to the child's parent.
        ("child", true, true),
    ] {
        for way in [WAYS[0], WAYS[2]] {
            let executed = ["grep", "-c", "uzram-host", "/proc/self/maps"];
            let command = [&[&*program, restriction], &executed[..]].concat();
            let ended = end_of(way, &command);
            let found = if has_host { Some(0) } else { Some(1) };
            assert_eq!(ended.code, found, "{restriction} {way:?}: {ended:?}");
            let has_line = ended.err.contains("programs that it executes run without a limit");
            assert_eq!(has_line, is_confined, "{restriction} {way:?}: {ended:?}");
        }
    }
}
