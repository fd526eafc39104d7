//! A line of code must fit into 100 columns, and a line of a document into 140. The rule includes
//! comments and strings, which the formatter ignores.
//!
//! Rows of tables may be longer, because they can't be wrapped.

use crate::document::Document;
use crate::ratchet::{self, Counts, add};
use crate::tree::Tree;

const CODE: usize = 100;
const DOCUMENT: usize = 140;

fn counts(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    let mut look =
        |path: &str, place: &str, text: &str, most: usize, left_out: &dyn Fn(usize) -> bool| {
            for (nth, line) in text.lines().enumerate() {
                let columns = line.chars().count();
                if columns > most && !left_out(nth + 1) {
                    add(
                        &mut counts,
                        place,
                        format!("{path}:{}: {columns} columns, {most} at most", nth + 1),
                    );
                }
            }
        };
    for (path, text) in tree.files("rs") {
        look(path, tree.crate_of(path), text, CODE, &|_| false);
    }
    for (path, text) in tree.files("md") {
        let document = Document::new(text);
        look(path, path, text, DOCUMENT, &|line| document.tables.contains(&line));
    }
    counts
}

#[test]
fn lines_fit() {
    ratchet::hold(&[("wide-lines", "Break the line.", &counts(Tree::disk()))]);
}

#[test]
fn wide_lines_are_found() {
    let (wide, fits) = ("é".repeat(101), "é".repeat(100));
    let code = format!("// {}\n//\n{fits}\n{wide}\n", &fits[..200 - 6]);
    let text = format!(
        "{}\n\n{}\n\n| a |\n|---|\n| {} |\n",
        "x".repeat(140),
        "x".repeat(141),
        "x".repeat(200)
    );
    let tree = Tree::of(&[("a/Cargo.toml", ""), ("a/b.rs", &code), ("c.md", &text)]);
    let counts = counts(&tree);
    assert_eq!(counts["a"].faults, ["a/b.rs:4: 101 columns, 100 at most"]);
    assert_eq!(
        (counts["c.md"].faults.join(""), counts.len()),
        ("c.md:3: 141 columns, 140 at most".to_owned(), 2)
    );
}
