//! How much there is to read: lines of the product with code on them, without tests and models. In
//! hundreds, rounded up.

use crate::ratchet::{self, Count, Counts};
use crate::tree::Tree;

const REMEDY: &str = "What is new has to replace something: the product is to become smaller, \
    20,000 lines at most in the end.";

/// What measures the product and its rivals: beside it, with `bench`.
const BESIDE: [&str; 2] = ["bench", "crates/measure"];

/// Memory that compresses itself: above the device, and bounded by itself.
const PAGER: [&str; 1] = ["crates/zmem"];

/// The table of system calls, a line a call: it grows with the kernel.
const CALLS: &str = "crates/calls";
/// What brings every system call of a program to a function: beside the ladder's product as well.
const DISPATCH: &str = "crates/dispatch";
/// The code that answers the system calls and faults of a program.
const RUNTIME: &str = "crates/runtime";
/// The host that runs programs, and the code that reads which files it can run.
const HOST: [&str; 3] = ["crates/cli/src/host", "crates/executable", "crates/inject"];
/// What passes the product on to programs, in Rust, C and Python.
const INTERFACES: [&str; 3] = ["crates/capi", "crates/python", "crates/uzram"];
/// The command that starts programs by the host.
const RUN: &str = "crates/cli/src/run";

/// What those use who administer a machine: configuration, passed sockets, metrics, man pages.
const ADMIN: [&str; 8] = [
    "crates/cli/src/admin",
    "crates/cli/src/client/program",
    "crates/cli/src/client/watch",
    "crates/cli/src/config",
    "crates/cli/src/documents",
    "crates/cli/src/status/done",
    "crates/serve/src/address/passed",
    "crates/serve/src/metrics",
];
/// What a device would give, found out before there is one.
const ANALYZE: &str = "crates/measure/src/analyze";

/// Lines of code by crate, and of what is counted apart.
fn lines(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    let files = tree.files("rs").map(|(path, _)| path);
    for path in files.filter(|path| path.contains("/src/") && !tree.is_test_file(path)) {
        let facts = tree.facts(path);
        let number = facts.code.iter().filter(|line| !facts.is_test(**line)).count();
        // Folders, with the files of the same name.
        let mut all = ADMIN.into_iter().chain([RUN, ANALYZE, HOST[0]]);
        let apart = all.find(|place| path.starts_with(place));
        let place = apart.unwrap_or_else(|| tree.crate_of(path));
        counts.entry(place.to_owned()).or_default().number += number;
    }
    counts
}

/// The sum of the crates on the ladder, which are the product, and of what stands above and beside
/// them: the pager, the table of system calls, `dispatch`, `runtime`, `uzram run` and its host, the
/// interfaces, administration and analysis, `slab`, `bench` and others.
fn counts(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    for (dir, count) in lines(tree) {
        let place = match &*dir {
            dir if BESIDE.contains(&dir) => "beside",
            dir if PAGER.contains(&dir) => "pager",
            CALLS => "calls",
            DISPATCH => "dispatch",
            RUNTIME => "runtime",
            RUN => "run",
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
