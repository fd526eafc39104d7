//! A `#[path]` or an `include` in a crate must not lead to a file of another crate.

use proc_macro2::{TokenStream, TokenTree};

use crate::ratchet::{self, Counts, add};
use crate::source::Source;
use crate::tree::{Tree, folder, joined};

const REMEDY: &str = "What several crates need is a crate, that they depend on.";
const INCLUDES: [&str; 3] = ["include", "include_str", "include_bytes"];

/// Calls `found` with the text and the line of each `#[path = ...]`, `include!(...)` and similar
/// macro.
fn for_each_path(tokens: TokenStream, found: &mut impl FnMut(&str, usize)) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (nth, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let before =
            |back: usize| nth.checked_sub(back).map_or(String::new(), |at| tokens[at].to_string());
        let inside: Vec<TokenTree> = group.stream().into_iter().collect();
        let is_attr =
            before(1) == "#" && inside.first().is_some_and(|first| first.to_string() == "path");
        let is_include = before(1) == "!" && INCLUDES.contains(&&*before(2));
        if let Some(TokenTree::Literal(text)) = inside.last().filter(|_| is_attr || is_include) {
            found(text.to_string().trim_matches('"'), text.span().start().line);
        }
        for_each_path(group.stream(), found);
    }
}

fn counts(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    for (path, text) in tree.files("rs") {
        let own = tree.crate_of(path);
        for_each_path(Source::new(path, text).tokens, &mut |other, line| {
            let target = joined(folder(path), other);
            if target.is_none_or(|target| tree.crate_of(&target) != own) {
                add(&mut counts, own, format!("{path}:{line}: \"{other}\" is another crate's"));
            }
        });
    }
    counts
}

#[test]
fn files_are_their_crates_own() {
    ratchet::hold(&[("paths-across-crates", REMEDY, &counts(Tree::disk()))]);
}

#[test]
fn paths_across_crates_are_found() {
    let text = "#[path = \"../tests/x.rs\"]\nmod x;\n#[path = \"../../b/tests/y.rs\"]\nmod y;\n\
        const A: &str = include_str!(\"../../b/z\");\n\
        fn f() { path(\"../../b\"); let path = \"../../b\"; }\n";
    let tree = Tree::of(&[("a/Cargo.toml", ""), ("b/Cargo.toml", ""), ("a/src/lib.rs", text)]);
    let expected = [
        "a/src/lib.rs:3: \"../../b/tests/y.rs\" is another crate's",
        "a/src/lib.rs:5: \"../../b/z\" is another crate's",
    ];
    assert_eq!(counts(&tree)["a"].faults, expected);
}
