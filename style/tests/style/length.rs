//! Functions must fit on a screen, and files must be short.

use std::ops::RangeInclusive;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::ratchet::{self, Count, Counts, add};
use crate::source::{Source, lines};
use crate::tree::Tree;

/// The maximum number of lines of a function of the product. The ratchet can't raise this maximum.
const SCREEN: usize = 70;
/// A file of the product with more lines than this number, without tests, is counted.
const FILE: usize = 250;

/// The functions of a file: their names, and their lines from the signature to the end.
#[derive(Default)]
struct Functions(Vec<(String, RangeInclusive<usize>)>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (start, end) = (lines(signature.span()), lines(block.span()));
        self.0.push((signature.ident.to_string(), *start.start()..=*end.end()));
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        item.default.iter().for_each(|block| self.add(&item.sig, block));
    }
}

/// Keeps the largest `number` for `place`, and the violations with this number.
fn raise(counts: &mut Counts, place: &str, number: usize, fault: String) {
    let count = counts.entry(place.to_owned()).or_default();
    if number >= count.number {
        let others =
            if number > count.number { Vec::new() } else { std::mem::take(&mut count.faults) };
        *count = Count { number, faults: [others, vec![fault]].concat() };
    }
}

/// Returns the longest functions, the longest files, and, by crate, the number of files above
/// `FILE` lines.
fn counts(tree: &Tree) -> [Counts; 3] {
    let (mut functions, mut files, mut long) = (Counts::new(), Counts::new(), Counts::new());
    for (path, text) in tree.files("rs") {
        let source = Source::new(path, text);
        let is_test = tree.is_test_file(path);
        let mut found = Functions::default();
        found.visit_file(&source.file);
        for (name, lines) in found.0 {
            let place = if tree.is_test(path, *lines.start()) { "tests" } else { "product" };
            let (start, number) = (*lines.start(), lines.count());
            raise(
                &mut functions,
                place,
                number,
                format!("{path}:{start}: `{name}` has {number} lines"),
            );
        }
        let all = text.lines().count();
        let number = if is_test { all } else { all - tree.facts(path).test_lines() };
        let place = if is_test { "tests" } else { "product" };
        raise(&mut files, place, number, format!("{path}: {number} lines without tests"));
        if !is_test && number > FILE {
            add(
                &mut long,
                tree.crate_of(path),
                format!("{path}: {number} lines without tests, {FILE} at most"),
            );
        }
    }
    [functions, files, long]
}

#[test]
fn functions_and_files_are_short() {
    let [functions, files, long] = counts(Tree::disk());
    let product = &functions["product"];
    assert!(product.number <= SCREEN, "a screen has {SCREEN} lines: divide {:#?}", product.faults);
    let remedy = "A concept is a file: divide it.";
    ratchet::hold(&[
        ("longest-function", "Divide it, by what it does.", &functions),
        ("longest-file", remedy, &files),
        ("long-files", remedy, &long),
    ]);
}

#[test]
fn long_functions_and_files_are_found() {
    let body = "x();\n".repeat(8);
    let text = format!(
        "/// Doc.\n#[inline]\nfn long() {{\n{body}}}\nimpl A {{\nfn short() {{\n}}\n}}\n#[test]\n\
            fn test() {{\n{body}{body}}}\n"
    );
    let long = format!("{text}{}", "// why\n".repeat(240));
    let tree = Tree::of(&[
        ("a/Cargo.toml", ""),
        ("a/src/b.rs", &text),
        ("a/src/c.rs", &long),
        ("a/tests/d.rs", &body[..0]),
    ]);
    let [functions, files, long] = counts(&tree);
    let expected = ["a/src/b.rs:3: `long` has 10 lines", "a/src/c.rs:3: `long` has 10 lines"];
    assert_eq!(functions["product"].faults, expected);
    assert_eq!((functions["tests"].number, functions["tests"].faults.len()), (18, 2));
    assert_eq!((files["product"].number, files["tests"].number), (256, 0));
    assert_eq!(long["a"].faults, ["a/src/c.rs: 256 lines without tests, 250 at most"]);
}
