//! Splits documents, comments and help texts into sentences, without code.
//!
//! Comments and help texts are Markdown too, so consecutive lines are a paragraph.

use std::iter;
use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};

use crate::comments::comments;
use crate::document::{Block, Document};
use crate::source::{Comment, Source};
use crate::tree::{Tree, kind_of};

/// Attributes of clap whose strings are help texts.
const OF_HELP: [&str; 4] = ["arg", "command", "group", "value"];

/// A sentence, and the line of each of its parts in the file.
pub struct Sentence {
    pub text: String,
    /// For each part, its start in `text` and its line.
    lines: Vec<(usize, usize)>,
}

impl Sentence {
    /// Returns the number of the line with the byte `at` of `text`.
    pub fn line(&self, at: usize) -> usize {
        let nth = self.lines.partition_point(|(start, _)| *start <= at);
        self.lines[nth.max(1) - 1].1
    }
}

/// Returns the ranges of the sentences in a paragraph. A period, a question mark or an exclamation
/// mark ends a sentence at the end of a line, or before a capital letter, a digit or code.
fn ranges(text: &str, lines: &[(usize, usize)]) -> Vec<Range<usize>> {
    let (mut ranges, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices(' ') {
        let before = text[..at].trim_end_matches([')', '"']);
        let after = text[at + 1..].trim_start_matches(['(', '"']);
        let begins = |letter: char| letter.is_uppercase() || letter.is_numeric() || letter == '`';
        let is_new_line =
            lines.windows(2).any(|parts| parts[1].0 == at + 1 && parts[0].1 < parts[1].1);
        if before.ends_with(['.', '?', '!']) && (is_new_line || after.starts_with(begins)) {
            ranges.push(start..at);
            start = at + 1;
        }
    }
    ranges.push(start..text.len());
    ranges
}

/// Adds the sentences of a block to `found`. Code is replaced by two backquotes.
fn add(block: &Block, line_of: impl Fn(usize) -> usize, found: &mut Vec<Sentence>) {
    let (mut text, mut lines, mut last) = (String::new(), Vec::new(), 0);
    for part in &block.parts {
        if part.line > last && !text.is_empty() && !text.ends_with(' ') {
            text.push(' ');
        }
        last = part.line;
        lines.push((text.len(), line_of(part.line)));
        let said = if part.is_code { "``" } else { &part.text };
        text.push_str(if text.ends_with(' ') { said.trim_start() } else { said });
    }
    for range in ranges(&text, &lines).into_iter().filter(|range| !range.is_empty()) {
        let from = |&(at, line): &(usize, usize)| (at.saturating_sub(range.start), line);
        let lines = lines.iter().map(from).collect();
        found.push(Sentence { text: text[range].to_owned(), lines });
    }
}

/// Returns the sentences of `comments`, which are in the order of lines. A line with columns, which
/// are separated by three or more spaces, begins a paragraph.
fn of_comments(comments: &[Comment]) -> Vec<Sentence> {
    let (mut text, mut lines) = (String::new(), Vec::new());
    let mut last: Option<&Comment> = None;
    for comment in comments {
        let goes_on = last.is_some_and(|last| {
            let is_row = comment.text.contains("   ");
            let are_alike = last.is_doc == comment.is_doc && !is_row;
            are_alike
                && !last.is_trailing
                && !comment.is_trailing
                && comment.line.abs_diff(last.line) <= 1
        });
        if !goes_on {
            text.push('\n');
            lines.push(comment.line);
        }
        last = Some(comment);
        // An example in a docstring of Python is code.
        let is_code = comment.text.starts_with(">>>") || comment.text.starts_with("...");
        text.push_str(if is_code { "" } else { &comment.text });
        text.push('\n');
        lines.push(comment.line);
    }
    let mut found = Vec::new();
    for block in Document::new(&text).blocks {
        add(&block, |line| lines[line.min(lines.len()) - 1], &mut found);
    }
    found
}

/// Adds the lines of a help text as comments. An empty comment separates help texts.
fn add_help(text: &syn::LitStr, found: &mut Vec<Comment>) {
    let line = text.span().start().line;
    for text in iter::once("").chain(text.value().split('\n')) {
        let text = text.trim().to_owned();
        found.push(Comment { line, is_doc: true, is_trailing: false, text });
    }
}

/// Collects the help texts in clap's attributes.
fn in_attributes(tokens: TokenStream, is_inside: bool, found: &mut Vec<Comment>) {
    let mut is_attribute = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let first = group.stream().into_iter().next().map(|first| first.to_string());
                let is_of_help = first.is_some_and(|first| OF_HELP.contains(&&*first));
                let begins = is_attribute && is_of_help;
                in_attributes(group.stream(), is_inside || begins, found);
                is_attribute = false;
            }
            TokenTree::Literal(literal) if is_inside => {
                if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                    add_help(&text, found);
                }
            }
            token => is_attribute = token.to_string() == "#",
        }
    }
}

/// Collects a Rust file's help texts that are not comments. Such help texts are strings in
/// attributes, and constants of the same file that attributes name.
fn helps(path: &str, text: &str) -> Vec<Comment> {
    let mut found = Vec::new();
    if !OF_HELP.iter().any(|name| text.contains(&format!("#[{name}("))) {
        return found;
    }
    let source = Source::new(path, text);
    in_attributes(source.tokens, false, &mut found);
    for item in &source.file.items {
        if let syn::Item::Const(item) = item
            && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &*item.expr
        {
            add_help(text, &mut found);
        }
    }
    found
}

/// Returns the sentences of a document or a source. Returns an empty list for other files.
pub fn sentences(tree: &Tree, path: &str, text: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    match kind_of(path) {
        "md" => {
            for block in Document::new(text).blocks {
                add(&block, |line| line, &mut found);
            }
        }
        "rs" => {
            found = of_comments(&tree.facts(path).comments);
            found.extend(of_comments(&helps(path, text)));
        }
        _ => found = of_comments(&comments(path, text)),
    }
    found
}

#[cfg(test)]
fn said(path: &str, text: &str) -> Vec<(usize, String)> {
    let found = sentences(&Tree::of(&[(path, text)]), path, text);
    found.into_iter().map(|sentence| (sentence.line(0), sentence.text)).collect()
}

#[test]
fn sentences_of_documents_are_found() {
    let text = "# A head\n\nOne `x. Y` is\n*so* e.g. here. Two\n(\"three?\") Four; five.\n\n\
        ```\nno\n```\n\n    no\n\n- An item\n  that wraps.\n\n\
        | a cell | b |\n|---|---|\n| c | `d` |\n";
    let expected = [
        (1, "A head"),
        (3, "One `` is so e.g. here."),
        (4, "Two (\"three?\")"),
        (5, "Four; five."),
        (13, "An item that wraps."),
        (16, "a cell"),
        (16, "b"),
        (18, "c"),
        (18, "``"),
    ];
    assert_eq!(said("a.md", text), expected.map(|(line, text)| (line, text.to_owned())));
    let sentences = sentences(&Tree::of(&[]), "a.md", text);
    let line_of = |nth: usize, word| sentences[nth].line(sentences[nth].text.find(word).unwrap());
    assert_eq!((line_of(1, "is"), line_of(1, "so"), line_of(2, "three")), (3, 4, 5));
}

#[test]
fn sentences_of_comments_are_found() {
    let text = "//! Head,\n//! long.\n//!\n//! ```\n//! no\n//! ```\n// Other.\n\
        #[arg(long, help = \"Help \\\n  text.\")]\n\
        struct A {\n    a: u8, // one\n    b: u8, // two\n    // three\n\
        #[error(\"no\")]\n    c: u8,\n}\n\
        const D: &str = \"Codes.\";\n";
    let expected = [
        (1, "Head, long."),
        (7, "Other."),
        (11, "one"),
        (12, "two"),
        (13, "three"),
        (8, "Help text."),
        (17, "Codes."),
    ];
    assert_eq!(said("a.rs", text), expected.map(|(line, text)| (line, text.to_owned())));
    let text = "// -EIO   One,\n// more\n// -EBADF   two.\n// three: of columns. four\n";
    let expected = [(1, "-EIO   One, more"), (3, "-EBADF   two."), (4, "three: of columns. four")];
    assert_eq!(said("a.c", text), expected.map(|(line, text)| (line, text.to_owned())));
    let text = "# One\n# line.\n\nall: # Two.\n\t# Three.\n";
    let expected = [(1, "One line."), (4, "Two."), (5, "Three.")];
    assert_eq!(said("Makefile", text), expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!(said("a.py", "'''A.\n\n>>> no\n'''\n"), [(1, "A.".to_owned())]);
}
