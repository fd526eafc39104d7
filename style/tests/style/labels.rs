//! An invariant has a label such as `I5` or `zr-B1`. A label is a capital letter and a number,
//! optionally after the letters of a crate and a hyphen.
//!
//! A sentence or an item *defines* a label if it begins with the label and a colon or a comma. Each
//! label has one definition: in `docs/design.md`, in one of its chapters, or in a doc comment of
//! the product, but not in a table. Every other occurrence of the label is a citation.

use std::collections::BTreeMap;

use crate::document::Document;
use crate::ratchet::{self, Counts, add};
use crate::tree::Tree;

const DESIGN: &str = "docs/design.md";
const CHAPTERS: &str = "docs/design/";
const TWICE: &str = "Keep one definition (docs/design.md or a chapter, or the head of the file \
    that keeps it), cite it elsewhere: (zr-B1). Two invariants of one label: rename one, with its \
    crate's letters.";
const UNKNOWN: &str = "Define it, once, as `LABEL: ...`, or correct the citation.";

/// The lines that define each label, and the labels that each line cites.
#[derive(Default)]
struct Labels {
    defined: BTreeMap<String, Vec<String>>,
    cited: Vec<(String, String)>,
}

fn is_label(word: &str) -> bool {
    let (prefix, label) = word.rsplit_once('-').unwrap_or(("", word));
    let (capital, number) = label.split_at_checked(1).unwrap_or(("", ""));
    capital.bytes().all(|byte| byte.is_ascii_uppercase())
        && (1..=2).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && prefix.len() <= 4
        && prefix.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Returns the labels in a line, and whether the line defines each label.
fn labels(line: &str) -> Vec<(&str, bool)> {
    let is_word =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '`' | '%' | '/');
    let mut found = Vec::new();
    for word in line.split(|letter| !is_word(letter)).filter(|word| is_label(word)) {
        let at = word.as_ptr() as usize - line.as_ptr() as usize;
        let (before, after) =
            (line[..at].trim_start_matches(['-', '*', ' ']), &line[at + word.len()..]);
        let begins =
            before.is_empty() || [". ", "; ", ": "].iter().any(|end| before.ends_with(end));
        let says = after.strip_prefix(": ").or(after.strip_prefix(", "));
        let is_said = says.is_some_and(|rest| {
            rest.starts_with(|letter: char| letter.is_lowercase() || letter == '`')
        });
        found.push((word, begins && is_said && !before.ends_with("SAFETY: ")));
    }
    found
}

impl Labels {
    /// Adds the labels in a line. If `may_define` is false, all labels are citations.
    fn add(&mut self, path: &str, number: usize, line: &str, may_define: bool) {
        for (label, defined) in labels(line) {
            let place = format!("{path}:{number}");
            if defined && may_define {
                self.defined.entry(label.into()).or_default().push(place);
            } else {
                self.cited.push((label.into(), place));
            }
        }
    }

    fn of(tree: &Tree) -> Self {
        let mut labels = Self::default();
        for (path, text) in tree.files("md") {
            let document = Document::new(text);
            let is_design = path == DESIGN || path.starts_with(CHAPTERS);
            for (nth, line) in text.lines().enumerate() {
                let may_define = is_design && !document.tables.contains(&(nth + 1));
                labels.add(path, nth + 1, line, may_define);
            }
        }
        for (path, _) in tree.files("rs") {
            for comment in &tree.facts(path).comments {
                let may_define = comment.is_doc && !tree.is_test(path, comment.line);
                labels.add(path, comment.line, &comment.text, may_define);
            }
        }
        labels
    }
}

/// Counts the labels with several definitions, and the citations of labels without a definition.
fn counts(tree: &Tree) -> [Counts; 2] {
    let (labels, mut twice, mut unknown) = (Labels::of(tree), Counts::new(), Counts::new());
    for (label, places) in &labels.defined {
        for place in &places[1..] {
            add(&mut twice, "all", format!("{place}: {label} is defined in {} already", places[0]));
        }
    }
    for (label, place) in
        labels.cited.iter().filter(|(label, _)| !labels.defined.contains_key(label))
    {
        add(&mut unknown, "all", format!("{place}: {label} is defined nowhere"));
    }
    [twice, unknown]
}

#[test]
fn labels_are_defined_once() {
    let labels = Labels::of(Tree::disk());
    assert!(
        labels.defined.len() > 20,
        "only {:?} are found: are they still written `LABEL: ...`?",
        labels.defined.keys()
    );
    let [twice, unknown] = counts(Tree::disk());
    let rules = [("labels-defined-again", TWICE, &twice), ("labels-undefined", UNKNOWN, &unknown)];
    ratchet::hold(&rules);
}

#[test]
fn labels_defined_twice_or_never_are_found() {
    let design = "- B1: a word. (B9).\n- zs-M3: `x` is; B2, the next.\n\n| what |\n|---|\n| B1: \
        a cell |\n\nAs X2, X3 say, 0xA4 and LZ4, UTF-8, `S4`.\n";
    let code = "//! K1: pages stay (B1); B2: once more.\n// SAFETY: B1: who\n// K1: of one.\nfn \
        f() { g(\"D1: no\") } // zs-M3, zs-M4\n\
        #[cfg(test)]\n/// K1: in a test.\nmod tests {}\n";
    let tree = Tree::of(&[
        (DESIGN, design),
        ("a/Cargo.toml", ""),
        ("a/src/b.rs", code),
        ("a/tests/c.rs", "// B1: a test\n"),
    ]);
    let [twice, unknown] = counts(&tree);
    assert_eq!(twice["all"].faults, ["a/src/b.rs:1: B2 is defined in docs/design.md:2 already"]);
    let expected = [
        "docs/design.md:1: B9 is defined nowhere",
        "docs/design.md:8: X2 is defined nowhere",
        "docs/design.md:8: X3 is defined nowhere",
        "a/src/b.rs:4: zs-M4 is defined nowhere",
    ];
    assert_eq!(unknown["all"].faults, expected);
}
