//! Issues the system calls of `testkit::calls` while the memory of each call is evicted. The
//! results must be the same as in a native run, without `uzram run`.
//!
//! The two ignored tests below issue the calls. The tests run as separate programs: natively, with
//! a host (`uzram-host`), and natively again. If both native runs have the same result, the run
//! with a host must have this result too.
#![allow(unsafe_code)]

use crate::support::Place;
use std::collections::BTreeMap;
use std::fmt::Write;
use testkit::calls::kernel::raw;
use testkit::calls::trial::{Case, FILLER, Object, PAGE, Spoil, Trial};
use testkit::calls::{all, spec_of};
use testkit::child::Child;

/// The minimum number of objects that are evicted before the calls.
const OBJECTS_LEAST: usize = 250;
/// Calls that the runtime refuses (see `docs/design/runtime.md`).
const REFUSED: &[&str] = &["io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd"];
/// Calls whose results vary with the time, the process or its resource usage. Also, with a host, a
/// system call can raise a signal, at which a traced process stops. Only the return values of these
/// calls are compared, not the contents of the objects.
const VARYING: &[&str] = &[
    "fstatfs",
    "getcpu",
    "getitimer",
    "getrusage",
    "ioctl TIOCGPTN",
    "ptrace",
    "rseq",
    "statfs",
    "sysinfo",
    "times",
    "wait4",
    "waitid",
];

/// The ending of the names of cases whose results depend on the queues, semaphores and segments of
/// all processes.
const OF_ALL: &str = "_INFO";

/// The results of each case as text: the result of the call, and the contents of its objects.
type Seen = BTreeMap<String, Vec<String>>;

/// Evicts the memory of an object, if the runtime manages the memory. Returns whether the memory is
/// evicted.
fn evict(object: &Object) -> bool {
    let bytes = object.pages.end - object.pages.start;
    let start = object.pages.start as *mut libc::c_void;
    let mut pages = [0_u8; 16];
    assert!(bytes / PAGE <= pages.len());
    // SAFETY: the pages belong to a mapping of the trial, and the advice loses no data; `pages` has
    // a byte for each page.
    unsafe {
        assert_eq!(libc::madvise(start, bytes, libc::MADV_PAGEOUT), 0);
        assert_eq!(libc::mincore(start, bytes, pages.as_mut_ptr()), 0);
    }
    pages.iter().all(|page| page & 1 == 0)
}

/// Returns the bytes of an object. Asserts that the bytes before the object did not change.
fn contents(object: &Object) -> Vec<u8> {
    let bytes = object.pages.end - object.pages.start;
    // SAFETY: the pages belong to the trial, which has no other reference to them.
    let all = unsafe { std::slice::from_raw_parts(object.pages.start as *const u8, bytes) };
    let (before, it) = all.split_at(object.range.start - object.pages.start);
    assert!(before.iter().all(|&byte| byte == FILLER), "{:#x?}", object.range);
    it.to_vec()
}

/// Evicts the objects of a case, and issues the call of the case. Returns a line with the result
/// and the contents of the objects.
fn issue(case: &Case) -> String {
    let Some((mut trial, given)) = Trial::prepare(case, Spoil::Nothing) else {
        return format!("case {}: left out\n", case.0);
    };
    let gone = trial.objects.iter().filter(|object| evict(object)).count();
    let value = raw(spec_of(case).number as i64, &given);
    let mut line = format!("case {}: {gone}/{} {value:x}", case.0, trial.objects.len());
    for object in &trial.objects {
        for word in contents(object).chunks(8) {
            line.push(' ');
            word.iter().for_each(|byte| write!(line, "{byte:02x}").unwrap());
        }
    }
    trial.end();
    line + "\n"
}

/// Issues the calls of all cases. Each case runs in a child process with one thread or two threads.
fn issue_all(is_alone: bool) {
    for case in all() {
        let work = || {
            if !is_alone {
                std::thread::spawn(|| {
                    loop {
                        std::thread::park();
                    }
                });
            }
            let line = issue(case);
            // SAFETY: the pointer and length are those of `line`.
            let written = unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
            assert_eq!(written, line.len() as isize);
        };
        let status = Child::fork(work).status();
        if status != 0 {
            println!("case {}: the child failed: {status}", case.0);
        }
    }
}

#[test]
#[ignore = "a part of the tests below"]
fn cases_are_issued_alone() {
    issue_all(true);
}

#[test]
#[ignore = "a part of the tests below"]
fn cases_are_issued_beside_a_thread() {
    issue_all(false);
}

/// Runs one of the two ignored tests. Returns the results of the cases, the number of objects, and
/// the number of evicted objects.
fn run(place: &Place, test: &str, settings: Option<&str>) -> (Seen, usize, usize) {
    let program = std::env::current_exe().unwrap();
    let test = format!("calls::{test}");
    let command = [program.to_str().unwrap(), &test, "--exact", "--ignored", "--nocapture"];
    let shown = match settings {
        Some(settings) => place.hosted(settings, &command).0,
        None => place.run(&command),
    };
    let (mut seen, mut objects, mut gone) = (Seen::new(), 0, 0);
    for line in shown.output.lines().filter_map(|line| line.strip_prefix("case ")) {
        let (name, rest) = line.split_once(": ").unwrap();
        let mut words: Vec<_> = rest.split(' ').map(str::to_owned).collect();
        if let Some((of, all)) = words[0].split_once('/') {
            gone += of.parse::<usize>().unwrap();
            objects += all.parse::<usize>().unwrap();
            words.remove(0);
        }
        let was = seen.insert(name.to_owned(), words);
        assert!(was.is_none(), "{name} twice: {}", shown.output);
    }
    assert_eq!(seen.len(), all().count(), "{shown:?}");
    (seen, objects, gone)
}

/// Returns a message if the result of a case with a host differs from the native results, else
/// `None`.
fn difference(name: &str, [before, with, after]: [&Vec<String>; 3]) -> Option<String> {
    let is_refused = REFUSED.iter().any(|call| name.starts_with(call));
    let varies = VARYING.iter().any(|call| name.starts_with(call));
    let words = if varies { 1 } else { before.len().max(with.len()) };
    let mut each = (0..words).map(|nth| [before, with, after].map(|seen| seen.get(nth)));
    let is_other = each.any(|[before, with, after]| before == after && with != before);
    (is_other && !is_refused && !name.ends_with(OF_ALL))
        .then(|| format!("{name}:\n  {before:?}\n  {with:?} with a host\n  {after:?}"))
}

fn answers_are_the_same(test: &str) {
    let place = Place::new();
    let (before, _, gone_without) = run(&place, test, None);
    let (with, objects, gone) = run(&place, test, Some("block=4096"));
    let (after, ..) = run(&place, test, None);
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default().lines().count() > 1;
    assert!(gone_without == 0 || swaps, "nothing manages this memory");
    eprintln!("{test}: {} cases, {gone} of {objects} objects had gone", with.len());
    let each = with.iter().map(|(name, with)| (name, [&before[name], with, &after[name]]));
    let found: Vec<_> = each.filter_map(|(name, seen)| difference(name, seen)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(gone == objects && objects >= OBJECTS_LEAST, "{gone} of {objects} objects had gone");
}

#[test]
fn calls_on_evicted_memory_answer_as_natively() {
    answers_are_the_same("cases_are_issued_alone");
}

#[test]
fn so_do_calls_of_a_process_of_two_threads() {
    answers_are_the_same("cases_are_issued_beside_a_thread");
}
