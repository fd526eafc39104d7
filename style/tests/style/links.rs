//! Files and headings to which documents link must exist, as must files named in backquotes. Links
//! to other hosts are not checked.

use crate::document::{Block, Document};
use crate::ratchet::{self, Counts, add};
use crate::tree::{Tree, folder, joined};

const REMEDY: &str = "Correct the link, or take it out.";
/// Endings of paths. A piece of code is a path if it has such an ending and a directory.
const PATHS: [&str; 7] = [".jsonl", ".md", ".py", ".rs", ".sh", ".svg", ".toml"];

/// Placeholders in a path.
const BLANKS: [&str; 4] = ["DIR", "FILE", "NAME", "PATH"];

/// Returns whether a piece of code has the form of a path in the repository, and no placeholders.
fn is_path(code: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    code.contains('/')
        && code.bytes().all(is_plain)
        && PATHS.iter().any(|end| code.ends_with(end))
        && !code.split(['/', '-', '.']).any(|word| BLANKS.contains(&word))
}

/// Returns the violation by `link` in the document `path`, or `None` if the target exists.
fn fault(tree: &Tree, path: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) =
        link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { Some(path.to_owned()) } else { joined(folder(path), file) };
    let Some(target) = target.filter(|target| tree.has(target)) else {
        return Some(format!("there is no {file}"));
    };
    let anchor = anchor?;
    let has = |text| Document::new(text).anchors.contains(anchor);
    (!tree.text(&target).is_some_and(has)).then(|| format!("{target} has no heading #{anchor}"))
}

fn counts(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    for (path, text) in tree.files("md") {
        let document = Document::new(text);
        for (line, link) in &document.links {
            if let Some(fault) = fault(tree, path, link) {
                add(&mut counts, path, format!("{path}:{line}: {fault}"));
            }
        }
        for (line, code) in document.blocks.iter().flat_map(Block::code) {
            // The code may be a path from the root or from the document's directory, or the end of
            // a file's path.
            let from_here = || joined(folder(path), code).is_some_and(|path| tree.has(&path));
            let is_there = || tree.has(code) || from_here() || tree.has_end(code);
            if is_path(code) && !is_there() {
                add(&mut counts, path, format!("{path}:{line}: there is no {code}"));
            }
        }
    }
    counts
}

#[test]
fn links_resolve() {
    ratchet::hold(&[("broken-links", REMEDY, &counts(Tree::disk()))]);
}

#[test]
fn broken_links_are_found() {
    let text = "# Head\n[a](b.md) [b](../README.md#top-2) [c](#head) <https://x.y/z> `docs/b.md` \
        `b.md` `DIR/x.rs` `x/NAME-A.md` `docs/*.md` `m/x.rs`\n\
        [d](c.md)\n[e](b.md#no)\n[f](../../x)\n![g](#none)\n`docs/c.md`\n";
    let tree = Tree::of(&[
        ("docs/a.md", text),
        ("docs/b.md", "# Yes"),
        ("README.md", "# Top\n# Top: 2\n"),
        ("a/src/m/x.rs", ""),
    ]);
    let expected = [
        "docs/a.md:3: there is no c.md",
        "docs/a.md:4: docs/b.md has no heading #no",
        "docs/a.md:5: there is no ../../x",
        "docs/a.md:6: docs/a.md has no heading #none",
        "docs/a.md:7: there is no docs/c.md",
    ];
    assert_eq!(counts(&tree)["docs/a.md"].faults, expected);
}
