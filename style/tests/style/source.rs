//! Parses a Rust file. Finds the lines with code, the comments, and the lines that are compiled
//! only into tests and models.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta};

pub struct Source {
    pub tokens: TokenStream,
    pub file: syn::File,
}

/// A line of a comment.
#[derive(Debug, PartialEq)]
pub struct Comment {
    pub line: usize,
    /// Whether the comment is a doc comment, such as `///`.
    pub is_doc: bool,
    /// Whether the comment follows code on the same line.
    pub is_trailing: bool,
    /// The text without the comment markers.
    pub text: String,
}

#[derive(Default)]
pub struct Facts {
    /// The numbers of the lines that have code.
    pub code: BTreeSet<usize>,
    pub comments: Vec<Comment>,
    /// The lines that are compiled only into tests and models.
    tests: Vec<RangeInclusive<usize>>,
}

/// Returns the lines of a span.
pub fn lines(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

/// Returns whether a condition of `cfg` holds outside of tests and models. Returns `None` if the
/// condition depends on the machine or a feature.
fn holds(meta: &Meta) -> Option<bool> {
    if let Meta::Path(path) = meta {
        let is_of_tests = ["test", "loom", "asan"].iter().any(|name| path.is_ident(name));
        return is_of_tests.then_some(false);
    }
    let Meta::List(list) = meta else { return None };
    let parser = syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated;
    let answers: Vec<_> = list.parse_args_with(parser).ok()?.iter().map(holds).collect();
    let all = |answer| answers.iter().all(|known| *known == Some(answer));
    let any = |answer| answers.contains(&Some(answer));
    match list.path.get_ident()?.to_string().as_str() {
        "not" => answers[0].map(|known| !known),
        "all" if any(false) => Some(false),
        "all" if all(true) => Some(true),
        "any" if any(true) => Some(true),
        "any" if all(false) => Some(false),
        _ => None,
    }
}

/// Returns whether an item with these attributes exists only in tests or models.
pub fn is_of_tests(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let condition = || attr.parse_args::<Meta>().ok().as_ref().and_then(holds);
        attr.path().is_ident("test") || (attr.path().is_ident("cfg") && condition() == Some(false))
    })
}

pub fn attrs_of(item: &syn::Item) -> &[Attribute] {
    use syn::Item::*;
    match item {
        Const(item) => &item.attrs,
        Enum(item) => &item.attrs,
        ExternCrate(item) => &item.attrs,
        Fn(item) => &item.attrs,
        ForeignMod(item) => &item.attrs,
        Impl(item) => &item.attrs,
        Macro(item) => &item.attrs,
        Mod(item) => &item.attrs,
        Static(item) => &item.attrs,
        Struct(item) => &item.attrs,
        Trait(item) => &item.attrs,
        TraitAlias(item) => &item.attrs,
        Type(item) => &item.attrs,
        Union(item) => &item.attrs,
        Use(item) => &item.attrs,
        _ => &[],
    }
}

struct Tests(Vec<RangeInclusive<usize>>);

impl<'a> Visit<'a> for Tests {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if is_of_tests(attrs_of(item)) {
            self.0.push(lines(item.span()));
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if is_of_tests(&item.attrs) {
            self.0.push(lines(item.span()));
        } else {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if is_of_tests(&item.attrs) {
            self.0.push(lines(item.span()));
        }
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if is_of_tests(&local.attrs) {
            self.0.push(lines(local.span()));
        }
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        if is_of_tests(&field.attrs) {
            self.0.push(lines(field.span()));
        }
    }
}

/// Returns whether a token comes from a doc comment. Doc comments are parsed as attributes.
fn is_comment(token: &TokenTree, text: &str) -> bool {
    let may_be = match token {
        TokenTree::Punct(punct) => matches!(punct.as_char(), '#' | '!'),
        TokenTree::Group(group) => group.delimiter() == Delimiter::Bracket,
        _ => false,
    };
    let starts = |sign| text[token.span().byte_range().start..].starts_with(sign);
    may_be && (starts("//") || starts("/*"))
}

/// Collects the lines with code, and the ranges of literals. No comment begins inside a literal.
fn look(
    tokens: TokenStream,
    text: &str,
    code: &mut BTreeSet<usize>,
    literals: &mut Vec<Range<usize>>,
) {
    for token in tokens {
        match token {
            token if is_comment(&token, text) => {}
            TokenTree::Group(group) => {
                code.extend(lines(group.span_open()));
                look(group.stream(), text, code, literals);
                code.extend(lines(group.span_close()));
            }
            token => {
                code.extend(lines(token.span()));
                if let TokenTree::Literal(literal) = token {
                    literals.push(literal.span().byte_range());
                }
            }
        }
    }
}

/// Returns the length of the comment at the start of `text`, or 0 if no comment begins there.
fn comment_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..text.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ if depth > 0 => at += 1,
            _ => return at,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

/// Returns the comments of a file in order. `literals` are the ranges of the file's literals.
fn comments(text: &str, literals: &[Range<usize>]) -> Vec<Comment> {
    let (mut found, mut line, mut at, mut next) = (Vec::new(), 1, 0, 0);
    while at < text.len() {
        let length = if !text.is_char_boundary(at) { 0 } else { comment_length(&text[at..]) };
        let end = match literals.get(next) {
            Some(literal) if literal.start == at => literal.end,
            _ => at + length.max(1),
        };
        next += usize::from(literals.get(next).is_some_and(|literal| literal.start == at));
        if length > 0 && end == at + length {
            let signs = text[at..].get(..3).unwrap_or("");
            let is_doc = ["///", "//!", "/**"].contains(&signs);
            let has_code =
                text[..at].rsplit('\n').next().is_some_and(|code| !code.trim().is_empty());
            for (nth, part) in text[at..end].split('\n').enumerate() {
                let said = part.trim().trim_start_matches(['/', '!', '*']).trim().to_owned();
                let is_trailing = has_code && nth == 0;
                found.push(Comment { line: line + nth, is_doc, is_trailing, text: said });
            }
        }
        line += text.as_bytes()[at..end].iter().filter(|byte| **byte == b'\n').count();
        at = end;
    }
    found
}

impl Source {
    /// Parses a file. If the file is not valid Rust, the message contains `path`.
    pub fn new(path: &str, text: &str) -> Self {
        let fails =
            |error: syn::Error| -> ! { panic!("{path}:{}: {error}", error.span().start().line) };
        let tokens: TokenStream =
            text.parse().unwrap_or_else(|error| fails(syn::Error::from(error)));
        let file = syn::parse2(tokens.clone()).unwrap_or_else(|error| fails(error));
        Self { tokens, file }
    }
}

impl Facts {
    pub fn new(path: &str, text: &str) -> Self {
        let source = Source::new(path, text);
        let (mut code, mut literals, mut tests) = (BTreeSet::new(), Vec::new(), Tests(Vec::new()));
        look(source.tokens, text, &mut code, &mut literals);
        tests.visit_file(&source.file);
        Self { code, comments: comments(text, &literals), tests: tests.0 }
    }

    /// Returns whether the line is compiled only into tests or models.
    pub fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Returns the number of lines that are compiled only into tests or models.
    pub fn test_lines(&self) -> usize {
        self.tests.iter().map(|lines| lines.clone().count()).sum()
    }
}

#[test]
fn code_comments_and_tests_are_told_apart() {
    let text = "//! Head.\n\nfn f() -> &'static str {\n    // Why: é.\n    /* a\n    b */ \"// \
        no\n    comment\" // B1\n}\n\n\
        #[cfg(all(test, loom))]\nmod models {\n    fn g() {}\n}\n#[cfg(any(test, unix))]\nfn h() \
            {}\n/// Doc.\n#[test]\nfn t() {}\n";
    let facts = Facts::new("x.rs", text);
    let code: Vec<_> = facts.code.iter().copied().collect();
    assert_eq!(code, [3, 6, 7, 8, 10, 11, 12, 13, 14, 15, 17, 18]);
    let said = |line: usize| {
        let comment = facts.comments.iter().find(|comment| comment.line == line)?;
        Some((comment.is_doc, comment.is_trailing, comment.text.as_str()))
    };
    let expected = [
        (true, false, "Head."),
        (false, false, "Why: é."),
        (false, false, "a"),
        (false, false, "b */"),
        (false, true, "B1"),
        (true, false, "Doc."),
    ];
    assert_eq!([1, 4, 5, 6, 7, 16].map(said), expected.map(Some));
    assert_eq!(facts.comments.len(), 6);
    let are_tests = [9, 10, 13, 14, 15, 16, 18].map(|line| facts.is_test(line));
    assert_eq!((are_tests, facts.test_lines()), ([false, true, true, false, false, true, true], 7));
}
