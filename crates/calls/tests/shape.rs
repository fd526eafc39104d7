//! Tests that each row is well formed, and that each call has a row.
#![allow(clippy::unwrap_used)]

use calls::{Argument, Choice, Count, Length, Pointee, Special, SyscallSpec, When, spec, specs};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// The numbers and names of all system calls, from the tables of Linux 6.18.
#[cfg(target_arch = "x86_64")]
const NAMES: &str = include_str!("names_x86_64.txt");
#[cfg(target_arch = "aarch64")]
const NAMES: &str = include_str!("names_aarch64.txt");

/// The file of the `libc` crate that defines the numbers of this architecture's system calls.
#[cfg(target_arch = "x86_64")]
const CONSTANTS: &str = "src/unix/linux_like/linux/gnu/b64/x86_64/not_x32.rs";
#[cfg(target_arch = "aarch64")]
const CONSTANTS: &str = "src/unix/linux_like/linux/gnu/b64/aarch64/mod.rs";

fn listed() -> BTreeMap<usize, &'static str> {
    let lines = NAMES.lines().map(|line| line.split_once(' ').unwrap());
    lines.map(|(number, name)| (number.parse().unwrap(), name)).collect()
}

#[test]
fn every_call_has_a_row() {
    let rows: BTreeMap<usize, &str> =
        specs().map(|row| (row.number, calls::name(row.number).unwrap())).collect();
    assert!(rows.len() > 300);
    assert_eq!(rows, listed());
    let names: BTreeSet<&str> = rows.values().copied().collect();
    assert_eq!(names.len(), rows.len(), "a name has two rows");
    for number in [usize::MAX, 511, 512, 400] {
        assert!(spec(number).is_none(), "{number}");
    }
}

/// Returns the directories of the `libc` crate in cargo's registry.
fn crates() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let Some(Ok(indexes)) = home.map(|home| fs::read_dir(home.join("registry/src"))) else {
        return Vec::new();
    };
    let packages = indexes.flatten().filter_map(|index| fs::read_dir(index.path()).ok()).flatten();
    let is_libc =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("libc-0.2");
    packages.flatten().map(|entry| entry.path()).filter(is_libc).collect()
}

/// Checks all installed versions of the `libc` crate. If a version defines a new call, the table
/// needs a row for this call.
#[test]
fn every_constant_has_a_row() {
    for path in crates() {
        let Ok(text) = fs::read_to_string(path.join(CONSTANTS)) else { continue };
        let constants = text.lines().filter_map(|line| {
            let (name, value) =
                line.trim().strip_prefix("pub const SYS_")?.split_once(": c_long = ")?;
            Some((value.trim_end_matches(';').parse::<usize>().ok()?, name))
        });
        let mut count = 0;
        for (number, name) in constants {
            assert_eq!(
                spec(number).map(|row| calls::name(row.number).unwrap()),
                Some(name),
                "{}",
                path.display()
            );
            count += 1;
        }
        println!("{}: {count} constants", path.display());
        assert!(count > 250, "{}: are constants written as before?", path.display());
    }
}

fn check_count(row: &SyscallSpec, count: Count) {
    let counting = row.arguments[usize::from(count.argument())];
    let is_number = matches!(counting, Argument::Plain | Argument::By(_));
    assert!(
        is_number,
        "{}: {count:?} counts, and is {counting:?}",
        calls::name(row.number).unwrap()
    );
}

fn check_length(row: &SyscallSpec, length: Length) {
    match length {
        Length::Bytes(bytes) => {
            assert!((1..=4096).contains(&bytes), "{}", calls::name(row.number).unwrap())
        }
        Length::Items { count, bytes, more } => {
            check_count(row, count);
            assert!(
                (1..=64).contains(&bytes) && more <= 16,
                "{}",
                calls::name(row.number).unwrap()
            );
        }
        Length::Bits { count, less } => {
            check_count(row, count);
            assert!(less <= 1, "{}", calls::name(row.number).unwrap());
        }
        Length::Pages(count) => check_count(row, count),
        Length::FromMemory(nth) => {
            let holding = row.arguments[usize::from(nth)];
            let is_reported = matches!(holding, Argument::Buffer(_, Length::Bytes(4)));
            assert!(
                is_reported,
                "{}: {holding:?} holds a length",
                calls::name(row.number).unwrap()
            );
        }
        Length::Own { at, least, most, .. } => {
            assert!(
                at + 4 <= least && least <= most && most <= 4096,
                "{}",
                calls::name(row.number).unwrap()
            );
        }
    }
}

fn check_form(row: &SyscallSpec, form: Pointee) {
    match form {
        Pointee::Iovecs(_, count) | Pointee::Messages(_, count) => check_count(row, count),
        Pointee::CloneArgs(count) | Pointee::Iocbs(count) => check_count(row, count),
        Pointee::Waiters(length) | Pointee::Words(_, length) => check_length(row, length),
        _ => {}
    }
}

/// Checks that choices are nested at most twice, and that the values of each choice are distinct.
fn check_choice(row: &SyscallSpec, choice: &Choice, depth: usize) {
    assert!(choice.argument < 6 && depth < 2, "{}", calls::name(row.number).unwrap());
    let values: BTreeSet<_> = choice.cases.iter().map(|(value, _)| *value).collect();
    assert_eq!(
        values.len(),
        choice.cases.len(),
        "{}: a value stands twice",
        calls::name(row.number).unwrap()
    );
    for value in values {
        assert_eq!(
            value & choice.mask,
            value,
            "{}: {value:#x} never comes",
            calls::name(row.number).unwrap()
        );
    }
    for argument in choice.cases.iter().map(|(_, argument)| *argument).chain([choice.other]) {
        check_argument(row, argument, depth + 1);
    }
}

fn check_argument(row: &SyscallSpec, argument: Argument, depth: usize) {
    match argument {
        Argument::Plain | Argument::Unknown | Argument::Text | Argument::Ioctl => {}
        Argument::Buffer(_, length) => check_length(row, length),
        Argument::Pointee(form) => check_form(row, form),
        Argument::By(choice) => check_choice(row, choice, depth),
    }
}

fn check_condition(when: When) {
    match when {
        When::Never | When::Always => {}
        When::Null(argument) | When::Negative(argument) => assert!(argument < 6),
        When::Bits { argument, bits } | When::NoBits { argument, bits } => {
            assert!(argument < 6 && bits != 0);
        }
        When::By { argument, mask, cases } => {
            assert!(argument < 6);
            for (value, case) in cases {
                assert_eq!(value & mask, *value);
                assert!(!matches!(case, When::By { .. }));
                check_condition(*case);
            }
        }
    }
}

/// The runtime publishes that a thread waits before calls with `repeats`, but ends this state only
/// after calls with `is_interrupted`.
#[test]
fn calls_that_are_repeated_are_also_interrupted() {
    let values = [0, 1, 2, 9, usize::MAX];
    for row in specs() {
        let Some(wait) = row.wait else { continue };
        for second in (0..16).chain([128, usize::MAX]) {
            for (third, fourth) in values.into_iter().flat_map(|third| values.map(|at| (third, at)))
            {
                let arguments = [1, second, third, fourth, 0, 0];
                let repeats = wait.repeats.holds(&arguments);
                let name = calls::name(row.number).unwrap();
                assert!(!repeats || wait.is_interrupted.holds(&arguments), "{name} {arguments:?}");
            }
        }
    }
}

#[test]
fn rows_are_well_formed() {
    for row in specs() {
        row.arguments.iter().for_each(|argument| check_argument(row, *argument, 0));
        let waits = row.wait.map(|wait| [wait.is_interrupted, wait.repeats, wait.restarts]);
        let own = [row.kept_after_return, row.changes_mappings, row.ends_own_thread];
        own.into_iter().chain(waits.into_iter().flatten()).for_each(check_condition);
        assert!(!(row.is_brief && row.wait.is_some()), "{}", calls::name(row.number).unwrap());
        if let Some(mask) = row.signal_mask {
            let of_mask = row.arguments[usize::from(mask.argument)];
            assert_ne!(of_mask, Argument::Plain, "{}", calls::name(row.number).unwrap());
        }
        if let Special::By { argument, cases } = row.special {
            assert!(argument < 6 && !cases.is_empty(), "{}", calls::name(row.number).unwrap());
            let is_nested = |(_, case): &(usize, Special)| matches!(case, Special::By { .. });
            assert!(!cases.iter().any(is_nested), "{}", calls::name(row.number).unwrap());
        }
    }
}

/// Asserts that exactly the calls with these names have the effect `special` for some arguments.
/// Names of calls that this architecture lacks are ignored.
fn assert_named(special: Special, expected: &str) {
    let names = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<BTreeSet<_>>();
    let here = names(&mut listed().into_values());
    let marked = names(
        &mut specs()
            .filter(|row| row.special == special)
            .map(|row| calls::name(row.number).unwrap()),
    );
    let expected: BTreeSet<&str> =
        expected.split_whitespace().filter(|name| here.contains(name)).collect();
    assert_eq!(marked, expected);
}

#[test]
fn what_a_pager_has_to_handle_is_marked() {
    assert_named(Special::Process, "clone clone3 execve execveat fork vfork");
    assert_named(
        Special::Signals,
        "epoll_pwait epoll_pwait2 io_pgetevents io_uring_enter ppoll pselect6 rt_sigaction \
            rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack signalfd \
            signalfd4",
    );
    assert_named(
        Special::AddressSpace,
        "brk io_destroy io_setup madvise map_shadow_stack mbind migrate_pages mincore mlock \
            mlock2 mlockall mmap move_pages mprotect mremap mseal msync munlock munlockall munmap \
            pkey_mprotect process_madvise remap_file_pages set_mempolicy_home_node shmat shmdt \
            userfaultfd",
    );
    assert_named(Special::Forbidden, "io_uring_setup");
}

#[test]
fn arguments_decide_what_is_special_and_what_lasts() {
    let call = |number: i64, arguments: [usize; 6]| {
        let row = spec(number as usize).unwrap();
        (row.special(&arguments), row.kept_after_return.holds(&arguments))
    };
    assert_eq!(call(libc::SYS_prctl, [59, 1, 0, 0, 0, 0]), (Special::Forbidden, true));
    assert_eq!(call(libc::SYS_prctl, [15, 0, 0, 0, 0, 0]), (Special::Nothing, false));
    assert_eq!(call(libc::SYS_prctl, [22, 2, 0, 0, 0, 0]).0, Special::Filter);
    let zero_copy = libc::MSG_ZEROCOPY as usize;
    assert_eq!(call(libc::SYS_sendto, [3, 0, 0, zero_copy, 0, 0]), (Special::Nothing, true));
    assert_eq!(call(libc::SYS_sendto, [3, 0, 0, 0x40, 0, 0]), (Special::Nothing, false));
    assert!(call(libc::SYS_sendmsg, [3, 0, zero_copy, 0, 0, 0]).1);
    assert!(call(libc::SYS_set_robust_list, [0; 6]).1 && call(libc::SYS_rseq, [0; 6]).1);
    assert!(!call(libc::SYS_read, [0; 6]).1);
    assert!(call(libc::SYS_ioctl, [3, 0x4020_ae46, 0, 0, 0, 0]).1);
    assert!(call(libc::SYS_clone, [libc::CLONE_CHILD_CLEARTID as usize, 0, 0, 0, 0, 0]).1);
}

#[test]
fn conditions_depend_on_arguments() {
    let wait = |number: i64| spec(number as usize).unwrap().wait.unwrap();
    let futex = |operation: i32, time: usize| {
        let (wait, args) = (wait(libc::SYS_futex), [0, operation as usize, 0, time, 0, 0]);
        [wait.is_interrupted, wait.repeats, wait.restarts].map(|when| when.holds(&args))
    };
    assert_eq!(futex(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 0), [true, true, true]);
    assert_eq!(futex(libc::FUTEX_WAIT, 1), [true, false, false]);
    assert_eq!(futex(libc::FUTEX_WAIT_BITSET, 1), [true, true, false]);
    assert_eq!(futex(libc::FUTEX_LOCK_PI, 0), [false, false, true]);
    let all = [3, 0, 0, libc::MSG_WAITALL as usize, 0, 0];
    assert!(!wait(libc::SYS_recvfrom).repeats.holds(&all));
    assert!(wait(libc::SYS_recvmsg).repeats.holds(&all));
    assert!(wait(libc::SYS_epoll_pwait).repeats.holds(&[3, 0, 0, u32::MAX as usize, 0, 0]));
    assert!(!wait(libc::SYS_epoll_pwait).repeats.holds(&[3, 0, 0, 1, 0, 0]));
    let ends = |number: i64, args| spec(number as usize).unwrap().ends_own_thread.holds(&args);
    assert!(ends(libc::SYS_close_range, [3, 9, 2, 0, 0, 0]));
    assert!(!ends(libc::SYS_close_range, [3, 9, 4, 0, 0, 0]));
    assert!(ends(libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, 0, 0, 0, 0, 0]));
    assert!(!ends(libc::SYS_prctl, [libc::PR_SET_NAME as usize, 0, 0, 0, 0, 0]));
    assert!(ends(libc::SYS_prctl, [libc::PR_SET_KEEPCAPS as usize, 0, 0, 0, 0, 0]));
}
