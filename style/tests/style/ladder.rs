//! A crate is allowed to use another crate of this repository only if that crate precedes it in the
//! list of `crates/README.md`, the ladder.

use crate::ratchet::{self, Counts, add};
use crate::tree::Tree;

const LIST: &str = "crates/README.md";
/// The only exception: the crate `uzram` re-exports `slab`, which is not in the list.
const ROOF: (&str, &str) = ("uzram", "slab");
const REMEDY: &str =
    "A crate uses those above it in crates/README.md only: move what is needed to the lower one.";

/// Returns the crates in the order of the ladder, lowest first.
fn ladder(tree: &Tree) -> Vec<&str> {
    let rows = tree.text(LIST).unwrap_or("").lines();
    rows.filter_map(|row| row.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name).collect()
}

/// Returns the dependencies in a manifest, with their lines. The flag is true if only tests use the
/// dependency.
fn dependencies(manifest: &str) -> Vec<(&str, usize, bool)> {
    let (mut section, mut found) = ("", Vec::new());
    for (nth, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        } else if section.ends_with("dependencies")
            && let Some((name, _)) = line.split_once(['.', '=', ' '])
            && !name.starts_with('#')
        {
            found.push((name, nth + 1, section.ends_with("dev-dependencies")));
        }
    }
    found
}

fn counts(tree: &Tree) -> Counts {
    let (ladder, mut counts) = (ladder(tree), Counts::new());
    let place = |name: &str| ladder.iter().position(|rung| *rung == name);
    let packages: Vec<&str> = tree.crates().map(|dir| dir.rsplit('/').next().unwrap()).collect();
    for name in ladder.iter().filter(|name| !packages.contains(name)) {
        add(&mut counts, "all", format!("{LIST}: lists `{name}`, and there is no crates/{name}"));
    }
    for dir in tree.crates().filter(|dir| dir.starts_with("crates/")) {
        let (name, manifest) = (&dir["crates/".len()..], format!("{dir}/Cargo.toml"));
        let Some(own) = place(name) else {
            add(
                &mut counts,
                "all",
                format!("{manifest}:1: `{name}` is not in the table of {LIST}"),
            );
            continue;
        };
        for (other, line, test) in dependencies(tree.text(&manifest).unwrap()) {
            let fault = match place(other) {
                Some(rung) if rung >= own => "stands above it",
                None if (name, other) == ROOF => continue,
                None if packages.contains(&other) && !test => "stands beside the ladder",
                _ => continue,
            };
            add(
                &mut counts,
                "all",
                format!("{manifest}:{line}: `{name}` depends on `{other}`, which {fault}"),
            );
        }
    }
    counts
}

#[test]
fn crates_use_those_below() {
    assert!(ladder(Tree::disk()).len() > 5, "is the table of {LIST} still there?");
    ratchet::hold(&[("upward-imports", REMEDY, &counts(Tree::disk()))]);
}

#[test]
fn an_upward_import_is_found() {
    let tree = Tree::of(&[
        (
            LIST,
            "| crate |\n|---|\n| `a` | low |\n| `b` | high |\n| `gone` | |\n\
                | `uzram` | all |\n",
        ),
        (
            "crates/a/Cargo.toml",
            "[package]\nname = \"a\"\n[target.'cfg(x)'.dev-dependencies]\nb.workspace = true\n",
        ),
        (
            "crates/b/Cargo.toml",
            "[dependencies]\na = { path = \"../a\" }\nbench.workspace = true\n\
                [dev-dependencies]\nkit = \"1\"\n",
        ),
        ("crates/c/Cargo.toml", ""),
        ("crates/uzram/Cargo.toml", "[dependencies]\nslab = { optional = true }\nbench = \"1\"\n"),
        ("slab/Cargo.toml", ""),
        ("bench/Cargo.toml", "[dependencies]\nb = \"1\"\n"),
        ("kit/Cargo.toml", ""),
    ]);
    let expected = [
        "crates/README.md: lists `gone`, and there is no crates/gone",
        "crates/a/Cargo.toml:4: `a` depends on `b`, which stands above it",
        "crates/b/Cargo.toml:3: `b` depends on `bench`, which stands beside the ladder",
        "crates/c/Cargo.toml:1: `c` is not in the table of crates/README.md",
        "crates/uzram/Cargo.toml:3: `uzram` depends on `bench`, which stands beside the ladder",
    ];
    assert_eq!(counts(&tree)["all"].faults, expected);
}
