//! Modules must not use each other in cycles. A use by an inner module counts as a use by its outer
//! modules. Uses between a module and the modules inside it do not count.
//!
//! The rule counts, for each crate, the modules in cycles and the modules in the largest cycle.

use std::collections::BTreeMap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use crate::modules::{Module, Modules};
use crate::ratchet::{self, Count, Counts};
use crate::scope::Graph;
use crate::tree::Tree;

const REMEDY: &str = "Move what both sides need below them, or pass it in; a re-export counts as \
    the module that defines it.";

fn name(module: &Module) -> String {
    if module.path.is_empty() { "crate".into() } else { module.path.join("::") }
}

/// Returns the ancestors of two modules directly below the nearest common ancestor. A module counts
/// as its own ancestor.
fn siblings(modules: &[Module], one: usize, other: usize) -> (usize, usize) {
    let (one, other) = (&modules[one].path, &modules[other].path);
    let depth = one.iter().zip(other).take_while(|(name, of_other)| name == of_other).count();
    let place = |path: &[String]| modules.iter().position(|module| module.path == path).unwrap();
    (place(&one[..=depth]), place(&other[..=depth]))
}

/// Returns the groups of modules that form cycles, the largest group first, with the uses within
/// each group.
fn cycles(modules: &[Module]) -> Vec<(usize, Vec<String>)> {
    let used = Graph::of(modules).edges();
    // Edges between the modules that `siblings` returns, with the first use of each edge.
    let mut edges = BTreeMap::new();
    for (&(from, to), &line) in &used {
        edges.entry(siblings(modules, from, to)).or_insert((from, to, line));
    }
    let mut graph = DiGraph::<usize, ()>::new();
    let nodes: Vec<_> = (0..modules.len()).map(|nth| graph.add_node(nth)).collect();
    for &(from, to) in edges.keys() {
        graph.add_edge(nodes[from], nodes[to], ());
    }
    let mut groups: Vec<_> =
        tarjan_scc(&graph).into_iter().filter(|group| group.len() > 1).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let told = groups.iter().map(|group| {
        let mut names: Vec<_> = group.iter().map(|node| name(&modules[node.index()])).collect();
        names.sort();
        let mut faults = vec![format!("{} in one cycle: {}", names.len(), names.join(" "))];
        let inside = |nth: usize| group.iter().any(|node| node.index() == nth);
        let inner = edges.iter().filter(|((from, to), _)| inside(*from) && inside(*to));
        for (from, to, line) in inner.map(|(_, first)| first) {
            let (from, to) = (&modules[*from], &modules[*to]);
            faults.push(format!("{}:{line}: {} uses {}", from.file, name(from), name(to)));
        }
        (group.len(), faults)
    });
    told.collect()
}

/// Returns the numbers of modules in cycles and in the largest cycle, by crate.
fn counts(tree: &Tree) -> (Counts, Counts) {
    let (mut all, mut largest) = (Counts::new(), Counts::new());
    for dir in tree.crates() {
        let mut groups: Vec<(usize, Vec<String>)> = Vec::new();
        for root in Modules::roots(tree, dir) {
            groups.extend(cycles(&Modules::of(tree, &root).product));
        }
        let Some(first) = groups.iter().map(|(size, _)| *size).max() else { continue };
        let number = groups.iter().map(|(size, _)| size).sum();
        let faults: Vec<String> = groups.into_iter().flat_map(|(_, faults)| faults).collect();
        largest.insert(dir.into(), Count { number: first, faults: faults.clone() });
        all.insert(dir.into(), Count { number, faults });
    }
    (all, largest)
}

#[test]
fn modules_are_in_no_cycle() {
    let (all, largest) = counts(Tree::disk());
    let rules = [("modules-in-cycles", REMEDY, &all), ("largest-cycle", REMEDY, &largest)];
    ratchet::hold(&rules);
}

#[cfg(test)]
fn planted(files: &[(&str, &str)]) -> Vec<String> {
    let mut all = vec![("a/Cargo.toml", "")];
    all.extend(files);
    let counts = counts(&Tree::of(&all)).0;
    counts.get("a").map_or(Vec::new(), |count| count.faults.clone())
}

#[test]
fn cycles_are_found_whatever_they_are_written_as() {
    let back = [
        "use crate::b::B;",
        "use super::b::B;",
        "fn f() { crate::b::g(); }",
        "fn f() { assert!(super::b::g() > 1); }",
        "use crate::B;",
        "use crate::{d::{self, B as E}, face::B as F};",
        "struct S(crate::B);",
        "impl crate::b::B for () {}",
    ];
    for text in back {
        let lib = "mod b; mod c; mod d; mod face; pub use b::B;";
        let c = format!("pub struct C; {text}");
        let files = [
            ("a/src/lib.rs", lib),
            ("a/src/b.rs", "\nuse crate::c::C; pub struct B; pub fn g() {}"),
            ("a/src/c.rs", &c),
            ("a/src/d.rs", "pub struct B;"),
            ("a/src/face.rs", "pub use crate::b::B;"),
        ];
        let expected = ["2 in one cycle: b c", "a/src/b.rs:2: b uses c", "a/src/c.rs:1: c uses b"];
        assert_eq!(planted(&files), expected, "{text}");
    }
    let files = [
        ("a/src/lib.rs", "mod b; mod c; mod face;"),
        ("a/src/b.rs", "use crate::c::C; pub struct B;"),
        ("a/src/c.rs", "use crate::face::*; pub struct C; type T = B;"),
        ("a/src/face.rs", "pub use crate::b::B;"),
    ];
    let first = ["3 in one cycle: b c face", "a/src/b.rs:1: b uses c", "a/src/c.rs:1: c uses b"];
    assert_eq!(planted(&files)[..3], first);
}

#[test]
fn what_is_no_cycle_is_not_told() {
    let fine = [
        // Uses that form no cycle: uses of a parent, uses in tests, and uses of a crate or a
        // variable with a module's name.
        ("use b::B; mod b; struct L;", "use super::L; pub struct B;", ""),
        (
            "mod b; mod c;",
            "use crate::c::C;",
            "pub struct C; #[cfg(test)] mod tests { use crate::b::f; }",
        ),
        (
            "mod b; mod c;",
            "use crate::c::C;",
            "pub struct C; #[cfg(all(test, loom))] use crate::b::f;",
        ),
        ("mod b; mod c;", "use crate::c::C;", "use b::Other; pub struct C;"),
        ("mod b; mod c;", "use crate::c::C;", "pub struct C; fn f(b: u8) { b + self::f(b); }"),
        ("mod b; mod c;", "use crate::c::C;", "pub struct C; /// [`crate::b`]\nfn f() {}"),
    ];
    for (lib, b, c) in fine {
        let files = [("a/src/lib.rs", lib), ("a/src/b.rs", b), ("a/src/c.rs", c)];
        assert_eq!(planted(&files), [""; 0], "{lib} {b} {c}");
    }
}

#[test]
fn a_cycle_of_three_is_one() {
    let files = [
        ("a/src/lib.rs", "mod b; mod c; mod d; mod e;"),
        ("a/src/b.rs", "use crate::c;"),
        ("a/src/c.rs", "use crate::d::inner;"),
        ("a/src/d.rs", "pub mod inner { use crate::b; }"),
        ("a/src/e.rs", "use crate::{b, c, d};"),
    ];
    assert_eq!(planted(&files)[0], "3 in one cycle: b c d");
    // A cycle through a module's inner module, and a cycle inside a module.
    let files = [
        ("a/src/lib.rs", "mod b; mod c;"),
        ("a/src/b.rs", "mod inner; mod other; use crate::c::C;"),
        ("a/src/b/inner.rs", "pub struct I; use super::other;"),
        ("a/src/b/other.rs", "use crate::b::inner;"),
        ("a/src/c.rs", "use crate::b::inner::I; pub struct C;"),
    ];
    let cycles: Vec<_> =
        planted(&files).into_iter().filter(|fault| fault.contains("in one")).collect();
    assert_eq!(cycles, ["2 in one cycle: b::inner b::other", "2 in one cycle: b c"]);
}
