//! Limits the size of the product. The size is the number of lines of code without tests and
//! models, rounded up to hundreds.

use crate::ratchet::{self, Count, Counts};
use crate::tree::Tree;

const REMEDY: &str = "What is new has to replace something: the product is to become smaller, \
    20,000 lines at most in the end.";

/// The code that measures the product and its rivals: `bench`, the commands that measure, and the
/// definitions that they share.
const BESIDE: [&str; 3] = ["bench", "crates/measure", "crates/cli/src/commands"];

/// The pager, whose size has a limit of its own.
const PAGER: [&str; 1] = ["crates/zmem"];

/// The crate for processes that share the limit of a pager.
const GROUP: &str = "crates/procgroup";
/// The table of system calls, with a line for each system call of the kernel.
const CALLS: &str = "crates/calls";
/// The crate that dispatches every system call of a program to a function.
const DISPATCH: &str = "crates/dispatch";
/// The code that handles a program's system calls and faults.
const RUNTIME: &str = "crates/runtime";
/// The host that runs programs, and the crates that recognize programs and inject the host.
const HOST: [&str; 3] = ["crates/cli/src/host", "crates/executable", "crates/inject"];
/// The cache with compressed values.
const LRU: &str = "crates/lru";
/// The interfaces of the product for Rust, C and Python.
const INTERFACES: [&str; 3] = ["crates/capi", "crates/python", "crates/uzram"];
/// The command that starts programs through the host.
const RUN: [&str; 2] = ["crates/run", "crates/cli/src/run"];

/// Code for administrators: configuration, metrics, man pages.
const ADMIN: [&str; 7] = [
    "crates/cli/src/admin",
    "crates/cli/src/client/program",
    "crates/cli/src/client/watch",
    "crates/cli/src/config",
    "crates/cli/src/documents",
    "crates/cli/src/status/done",
    "crates/serve/src/metrics",
];
/// The command `uzram analyze`.
const ANALYZE: &str = "crates/cli/src/commands/analyze";

/// Returns the lines of code by crate, and by directory for directories that are counted
/// separately.
fn lines(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    let files = tree.files("rs").map(|(path, _)| path);
    for path in files.filter(|path| path.contains("/src/") && !tree.is_test_file(path)) {
        let facts = tree.facts(path);
        let number = facts.code.iter().filter(|line| !facts.is_test(**line)).count();
        // Each name selects a directory, and the file with the same name and `.rs`. An inner
        // directory precedes its outer directory.
        let mut all = ADMIN.into_iter().chain([RUN[1], HOST[0], ANALYZE, BESIDE[2]]);
        let apart = all.find(|place| path.starts_with(place));
        let place = apart.unwrap_or_else(|| tree.crate_of(path));
        counts.entry(place.to_owned()).or_default().number += number;
    }
    counts
}

/// Returns the lines of the product, and of each part that is counted separately.
fn counts(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    for (dir, count) in lines(tree) {
        let place = match &*dir {
            dir if BESIDE.contains(&dir) => "beside",
            dir if PAGER.contains(&dir) => "pager",
            GROUP => "procgroup",
            CALLS => "calls",
            DISPATCH => "dispatch",
            RUNTIME => "runtime",
            dir if RUN.contains(&dir) => "run",
            LRU => "lru",
            dir if HOST.contains(&dir) => "host",
            dir if INTERFACES.contains(&dir) => "interfaces",
            dir if ADMIN.contains(&dir) => "admin",
            ANALYZE => "analyze",
            dir if dir.starts_with("crates/") => "product",
            dir => dir,
        };
        let sum = counts.entry(place.to_owned()).or_default();
        sum.number += count.number;
        sum.faults.push(format!("{dir}: {}", count.number));
    }
    counts.values_mut().for_each(|sum| sum.number = sum.number.next_multiple_of(100));
    counts
}

#[test]
fn the_product_grows_no_larger() {
    let counts = counts(Tree::disk());
    counts.values().for_each(|count| println!("{}", count.faults.join("\n")));
    ratchet::hold(&[("code-lines", REMEDY, &counts)]);
}

#[test]
fn lines_of_code_are_counted() {
    let text = "//! Doc.\n\n/// More.\nfn f() -> u8 { // why\n    /* no\n    */ 1\n}\n\
        #[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
    let many = "fn f() {}\n".repeat(98);
    let tree = Tree::of(&[
        ("crates/a/Cargo.toml", ""),
        ("crates/a/src/lib.rs", text),
        ("crates/a/tests/t.rs", "fn t() {}"),
        ("crates/b/Cargo.toml", ""),
        ("crates/b/src/main.rs", &many),
        ("bench/Cargo.toml", ""),
        ("bench/src/lib.rs", "fn f() {}\n"),
        ("crates/measure/Cargo.toml", ""),
        ("crates/measure/src/lib.rs", &many),
    ]);
    let counts = counts(&tree);
    let faults = vec!["crates/a: 3".to_owned(), "crates/b: 98".to_owned()];
    assert_eq!(
        (&counts["product"], counts["beside"].number),
        (&Count { number: 200, faults }, 100)
    );
}
