//! A tuning parameter must be a constant with its reason in the file `policy.rs` of its crate.
//!
//! A numeric constant is a tuning parameter if its value contains a number of at least two. A
//! `Duration` is a tuning parameter if it is not zero. Binary formats, protocols and the kernel's
//! interface fix the values of other constants. `style/exempt.txt` lists the files of these
//! constants, each with a reason.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Expr, Type};

use crate::ratchet::{self, Counts, add};
use crate::source::Source;
use crate::tree::Tree;

const REMEDY: &str = "Move it to the crate's policy.rs with its reason, or list the file in \
    style/exempt.txt if others fix the value.";
const EXEMPT: &str = include_str!("../../exempt.txt");
const NUMBERS: [&str; 15] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64", "Duration",
];

/// Finds the largest number in the value of a constant. A number with a fraction counts as 2.
struct Largest(u128);

impl<'a> Visit<'a> for Largest {
    fn visit_lit_int(&mut self, number: &'a syn::LitInt) {
        self.0 = self.0.max(number.base10_parse().unwrap_or(0));
    }

    fn visit_lit_float(&mut self, _: &'a syn::LitFloat) {
        self.0 = self.0.max(2);
    }
}

/// Collects the lines and names of constants.
struct Constants(Vec<(usize, String)>);

impl Constants {
    fn add(&mut self, name: &syn::Ident, of: &Type, value: &Expr) {
        let Type::Path(of) = of else { return };
        let mut largest = Largest(0);
        largest.visit_expr(value);
        let last = of.path.segments.last().unwrap();
        let least = if last.ident == "Duration" { 1 } else { 2 };
        if largest.0 >= least && NUMBERS.iter().any(|number| last.ident == number) {
            self.0.push((name.span().start().line, name.to_string()));
        }
    }
}

impl<'a> Visit<'a> for Constants {
    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.add(&item.ident, &item.ty, &item.expr);
        visit::visit_item_const(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.add(&item.ident, &item.ty, &item.expr);
    }
}

/// Returns the first path in `exempt` that equals `path` or is a directory above `path`.
fn exempts<'e>(exempt: &'e str, path: &str) -> Option<&'e str> {
    let lines = exempt.lines().filter_map(|line| line.split_once(' '));
    let mut found = lines.filter(|(start, _)| {
        path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || start.ends_with('/'))
    });
    found.next().map(|(start, _)| start)
}

/// Counts the tuning parameters outside of `policy.rs` by crate, and the constants that each line
/// of `exempt` permits.
fn counts<'e>(tree: &Tree, exempt: &'e str) -> (Counts, BTreeMap<&'e str, usize>) {
    let (mut counts, mut permitted) = (Counts::new(), BTreeMap::new());
    for (path, text) in tree.files("rs").filter(|(path, _)| path.contains("/src/")) {
        let dir = tree.crate_of(path);
        if !(dir.starts_with("crates/") || dir == "slab")
            || path.ends_with("/policy.rs")
            || tree.is_test_file(path)
        {
            continue;
        }
        let mut constants = Constants(Vec::new());
        constants.visit_file(&Source::new(path, text).file);
        for (line, name) in constants.0.into_iter().filter(|(line, _)| !tree.is_test(path, *line)) {
            match exempts(exempt, path) {
                Some(line) => *permitted.entry(line).or_default() += 1,
                None => add(&mut counts, dir, format!("{path}:{line}: {name}")),
            }
        }
    }
    (counts, permitted)
}

#[test]
fn thresholds_are_in_the_policy() {
    let (counts, permitted) = counts(Tree::disk(), EXEMPT);
    for line in EXEMPT.lines().filter(|line| !line.starts_with('#')) {
        let (path, reason) = line.split_once(' ').unwrap_or((line, ""));
        assert!(permitted.contains_key(path), "style/exempt.txt: {path} has no constant");
        assert!(!reason.is_empty(), "style/exempt.txt: {path} has no reason");
    }
    ratchet::hold(&[("thresholds", REMEDY, &counts)]);
}

#[test]
fn thresholds_outside_of_the_policy_are_found() {
    let text = "const A: usize = 1 << 4;\nconst B: u8 = 1;\nconst C: &str = \"3\";\n\
        fn f() {\n    const D: Duration = Duration::from_secs(1);\n}\n\
        impl S {\n    const E: f64 = 0.5;\n}\n\
        const F: u64 = u64::MAX - A as u64;\n\
        #[cfg(test)]\nmod tests {\n    const G: usize = 7;\n}\n";
    let tree = Tree::of(&[
        ("crates/a/Cargo.toml", ""),
        ("crates/a/src/lib.rs", text),
        ("crates/a/src/policy.rs", text),
        ("crates/a/src/wire.rs", text),
        ("crates/a/src/abi/x.rs", text),
        ("crates/a/tests/t.rs", text),
        ("testkit/Cargo.toml", ""),
        ("testkit/src/lib.rs", text),
    ]);
    let exempt = "# path reason\ncrates/a/src/wire.rs a protocol\ncrates/a/src/abi/ the kernel\n";
    let (counts, permitted) = counts(&tree, exempt);
    let expected = ["1: A", "5: D", "8: E"].map(|end| format!("crates/a/src/lib.rs:{end}"));
    assert_eq!(counts["crates/a"].faults, expected);
    let expected = [("crates/a/src/abi/", 3), ("crates/a/src/wire.rs", 3)];
    assert_eq!((permitted, counts.len()), (BTreeMap::from(expected), 1));
}
