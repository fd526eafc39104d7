//! Exactly the files that `docs/design.md` lists are allowed to use `unsafe` in the product. Each
//! site of `unsafe` must have a note that explains why the code is sound.
//!
//! The list is the paragraph that begins with "Unsafe code". Each entry is a crate in backquotes,
//! followed by the crate's files in parentheses. A file is a path in `src` without `.rs` and
//! `/mod`.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;

use crate::ratchet::{self, Counts, add};
use crate::source::{Facts, Source, lines};
use crate::tree::Tree;

const DESIGN: &str = "docs/design.md";
const REMEDY: &str = "Make the list in docs/design.md (paragraph \"Unsafe code\") and the files \
    agree; safe code is better.";
const NOTE: &str = "Write above it what makes it sound, and what establishes each fact: \
    `// SAFETY: ...`, or `# Safety` of a function.";

#[derive(Clone, Copy, PartialEq)]
enum Site {
    Block,
    Impl,
    Declared,
    /// A foreign block, an attribute or a type.
    Other,
}

/// Collects the line and the kind of each `unsafe`.
fn sites(tokens: TokenStream, found: &mut Vec<(usize, Site)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (nth, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if ident == "unsafe" => {
                let next = |ahead: usize| {
                    tokens.get(nth + ahead).map_or(String::new(), ToString::to_string)
                };
                let is_block = match tokens.get(nth + 1) {
                    Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
                    _ => false,
                };
                // A declaration has a name, as in `unsafe extern "C" fn name`. A function type has
                // none.
                let function = (1..=3).find(|ahead| next(*ahead) == "fn");
                let has_name = function.is_some_and(|at| {
                    matches!(tokens.get(nth + at + 1), Some(TokenTree::Ident(_)))
                });
                let site = match next(1).as_str() {
                    _ if is_block => Site::Block,
                    "impl" => Site::Impl,
                    "fn" | "extern" if has_name => Site::Declared,
                    "trait" => Site::Declared,
                    _ => Site::Other,
                };
                found.push((ident.span().start().line, site));
            }
            TokenTree::Group(group) => sites(group.stream(), found),
            _ => {}
        }
    }
}

/// The lines of functions in implementations of traits. The trait states the safety contract of
/// such functions.
#[derive(Default)]
struct OfTraits(BTreeSet<usize>);

impl<'a> Visit<'a> for OfTraits {
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let functions = item.items.iter().filter_map(|item| match item {
            syn::ImplItem::Fn(function) => Some(lines(function.sig.span())),
            _ => None,
        });
        self.0.extend(functions.filter(|_| item.trait_.is_some()).flatten());
    }
}

/// Returns whether an `unsafe` in `line` has a note on the same line or above its statement.
fn has_note(facts: &Facts, text: &[&str], line: usize, site: Site) -> bool {
    let says = |line: usize| {
        let mut said = facts.comments.iter().filter(|comment| comment.line == line);
        let is_doc = site == Site::Declared;
        said.any(|said| {
            said.text.starts_with("SAFETY:") || (is_doc && said.text.starts_with("# Safety"))
        })
    };
    let ends = |line: usize| {
        let code = text[line - 1].trim_end();
        facts.code.contains(&line) && [";", "{", "}", "=>"].iter().any(|end| code.ends_with(end))
    };
    let above =
        (1..line).rev().take_while(|above| !ends(*above) && !text[above - 1].trim().is_empty());
    [line].into_iter().chain(above).any(says)
}

/// Counts the sites of `unsafe` without a note, also in tests.
fn without_note(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    for (path, text) in tree.files("rs").filter(|(_, text)| text.contains("unsafe")) {
        let source = Source::new(path, text);
        let (mut found, mut of_traits) = (Vec::new(), OfTraits::default());
        let lines: Vec<&str> = text.lines().collect();
        sites(source.tokens, &mut found);
        of_traits.visit_file(&source.file);
        for (line, site) in found {
            let is_inherited = site == Site::Declared && of_traits.0.contains(&line);
            let needs = site != Site::Other && !is_inherited;
            if needs && !has_note(tree.facts(path), &lines, line, site) {
                add(
                    &mut counts,
                    tree.crate_of(path),
                    format!("{path}:{line}: unsafe without a note"),
                );
            }
        }
    }
    counts
}

/// Returns the files in the list of the design, as paths without `.rs`, with their lines.
fn listed(design: &str) -> BTreeMap<String, usize> {
    let (mut found, mut dir) = (BTreeMap::new(), String::new());
    let lines = design.lines().enumerate().skip_while(|(_, line)| !line.contains("Unsafe code"));
    let mut depth = 0;
    for (nth, line) in lines.take_while(|(_, line)| !line.trim().is_empty()) {
        for (piece, text) in line.split('`').enumerate() {
            if piece % 2 == 0 {
                depth += text.matches('(').count();
                depth -= text.matches(')').count().min(depth);
            } else if depth == 0 {
                dir = if ["slab", "bench", "fuzz"].contains(&text) {
                    text.into()
                } else {
                    format!("crates/{text}")
                };
            } else {
                found.insert(format!("{dir}/src/{text}"), nth + 1);
            }
        }
    }
    found
}

/// Counts the differences between the list and the files.
fn differences(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    let mut listed = listed(tree.text(DESIGN).unwrap_or(""));
    for (path, text) in tree.files("rs").filter(|(_, text)| text.contains("unsafe")) {
        let mut found = Vec::new();
        sites(Source::new(path, text).tokens, &mut found);
        if let Some((line, _)) = found.into_iter().find(|(line, _)| !tree.is_test(path, *line)) {
            let name = path.trim_end_matches(".rs").trim_end_matches("/mod").to_owned();
            if listed.remove(&name).is_none() {
                add(
                    &mut counts,
                    "all",
                    format!("{path}:{line}: unsafe, and {DESIGN} does not list {name}"),
                );
            }
        }
    }
    for (name, line) in listed {
        add(&mut counts, "all", format!("{DESIGN}:{line}: lists {name}, which has no unsafe"));
    }
    counts
}

#[test]
fn the_list_of_files_with_unsafe_is_right() {
    ratchet::hold(&[("unsafe-files", REMEDY, &differences(Tree::disk()))]);
}

#[test]
fn every_unsafe_site_has_a_note() {
    ratchet::hold(&[("unsafe-without-note", NOTE, &without_note(Tree::disk()))]);
}

#[test]
fn a_file_that_is_not_listed_or_has_no_unsafe_is_found() {
    let design = "x\n\nUnsafe code is denied: `a` (`b`, `c/d`,\n`e`), `f` (`g`). `h` forbids \
        it.\n\n`a` (`i`)\n";
    let block = "fn f() { unsafe {} }";
    let tree = Tree::of(&[
        (DESIGN, design),
        ("crates/a/Cargo.toml", ""),
        ("crates/a/src/lib.rs", "mod b; #[cfg(test)] mod t;"),
        ("crates/a/src/b.rs", block),
        ("crates/a/src/c/d/mod.rs", block),
        ("crates/a/src/e.rs", "// unsafe\n#[cfg(test)] mod t { fn f() { unsafe {} } }"),
        ("crates/a/src/t.rs", block),
        ("crates/a/tests/t.rs", block),
        ("crates/f/Cargo.toml", ""),
        ("crates/f/src/main.rs", "\n#[unsafe(no_mangle)] fn f() {}"),
        ("crates/f/src/g.rs", "unsafe impl A for B {}"),
    ]);
    let expected = [
        "crates/f/src/main.rs:2: unsafe, and docs/design.md does not list crates/f/src/main",
        "docs/design.md:4: lists crates/a/src/e, which has no unsafe",
    ];
    assert_eq!(differences(&tree)["all"].faults, expected);
}

#[test]
fn sites_without_a_note_are_found() {
    let noted = [
        "/// Doc.\n///\n/// # Safety\n/// As said.\n#[inline]\nunsafe fn a() {",
        "    // SAFETY: so.\n    let x =\n        unsafe { b() };",
        "    // SAFETY: so,\n    // and so.\n    #[allow(x)]\n    unsafe { b() } // more\n}",
        "unsafe impl GlobalAlloc for A { unsafe fn alloc() {} } // SAFETY: so.",
        "type F = unsafe extern \"C\" fn(u8);",
    ];
    let noted = noted.join("\n");
    assert_eq!(without_note(&Tree::of(&[("a.rs", &noted)])), Counts::new());
    let bare = [
        "unsafe fn a() {\n    // SAFETY: of another.\n    c();\n    unsafe { b() }\n}",
        "/// # Safety\nunsafe impl A for B {}",
        "/// Doc.\nunsafe trait C {}",
        "fn d() { e!(unsafe { 1 }) }",
        "// SAFETY: far off.\n\nunsafe extern \"C\" fn f() {}",
    ];
    let bare = bare.join("\n");
    let expected = [1, 4, 7, 9, 10, 13].map(|line| format!("a.rs:{line}: unsafe without a note"));
    assert_eq!(without_note(&Tree::of(&[("a.rs", &bare)]))[""].faults, expected);
}
