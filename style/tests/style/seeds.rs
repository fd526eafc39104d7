//! `UZRAM_SEED` must set the seed of every random test. So a helper function named `seed` must
//! provide the seed of each generator.
//!
//! The rule does not follow values, so it checks names. The argument of `with_seed` and similar
//! functions must use a name that contains `seed`. A seed must not be a literal, a constant or the
//! counter of a loop.

use std::collections::{BTreeSet, HashMap};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, Pat};

use crate::ratchet::{self, Counts, add};
use crate::source::{Source, lines};
use crate::tree::Tree;

const REMEDY: &str = "Take the seed from the crate's helper, which reads UZRAM_SEED and prints \
    it: `Rng::with_seed(seed(7))`.";
/// Functions that create a generator from a seed.
const MADE: [&str; 3] = ["with_seed", "seed_from_u64", "from_seed"];
/// Functions that create a generator without a seed, so that a run can't be repeated.
const UNSEEDED: [&str; 4] = ["thread_rng", "from_entropy", "from_os_rng", "getrandom"];

/// Collects the identifiers in tokens and in their groups.
fn idents(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => found.push(ident.to_string()),
            TokenTree::Group(group) => idents(group.stream(), found),
            _ => {}
        }
    }
}

/// Returns whether an expression has a name that contains `seed`.
fn names_seed(tokens: TokenStream) -> bool {
    let mut found = Vec::new();
    idents(tokens, &mut found);
    found.iter().any(|ident| ident.contains("seed"))
}

/// Splits the arguments of a call.
fn arguments(tokens: TokenStream) -> Vec<TokenStream> {
    let mut all = vec![TokenStream::new()];
    for token in tokens {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => all.push(TokenStream::new()),
            _ => all.last_mut().unwrap().extend([token]),
        }
    }
    all
}

/// Returns whether an expression consists only of literals and constants.
fn is_fixed(value: &Expr) -> bool {
    let is_constant = |path: &syn::ExprPath| {
        path.path
            .segments
            .last()
            .is_some_and(|name| !name.ident.to_string().contains(char::is_lowercase))
    };
    match value {
        Expr::Lit(_) => true,
        Expr::Path(path) => is_constant(path),
        Expr::Paren(inner) => is_fixed(&inner.expr),
        Expr::Cast(inner) => is_fixed(&inner.expr),
        Expr::Reference(inner) => is_fixed(&inner.expr),
        Expr::Array(array) => array.elems.iter().all(is_fixed),
        Expr::Binary(sides) => is_fixed(&sides.left) && is_fixed(&sides.right),
        Expr::Range(range) => {
            [&range.start, &range.end].into_iter().flatten().all(|end| is_fixed(end))
        }
        _ => false,
    }
}

/// The index of a function's parameter named `seed`, and the function's line.
type Function = (Option<usize>, usize);

/// The functions of a file by name, and the lines that assign a fixed seed to a name that contains
/// `seed`. The name of a method is `Type::name`. A variable counts as a function without a
/// parameter named `seed`.
#[derive(Default)]
struct Named {
    functions: HashMap<String, Function>,
    helpers: Vec<std::ops::RangeInclusive<usize>>,
    fixed: Vec<(usize, &'static str)>,
}

impl Named {
    fn look(&mut self, pattern: &Pat, value: &Expr, what: &'static str) {
        if let Pat::Ident(name) = pattern
            && name.ident.to_string().contains("seed")
            && is_fixed(value)
        {
            self.fixed.push((name.ident.span().start().line, what));
        }
    }
}

/// Returns the index of the parameter named `seed`, and the function's line.
fn place_of_seed(signature: &syn::Signature) -> Function {
    let is_seed = |argument: &syn::FnArg| match argument {
        syn::FnArg::Typed(typed) => matches!(&*typed.pat, Pat::Ident(name) if name.ident == "seed"),
        _ => false,
    };
    (signature.inputs.iter().position(is_seed), signature.ident.span().start().line)
}

impl<'a> Visit<'a> for Named {
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let syn::Type::Path(own) = &*item.self_ty else {
            return visit::visit_item_impl(self, item);
        };
        for function in &item.items {
            if let (syn::ImplItem::Fn(function), Some(own)) = (function, own.path.segments.last()) {
                let name = format!("{}::{}", own.ident, function.sig.ident);
                self.functions.insert(name, place_of_seed(&function.sig));
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if item.sig.ident == "seed" {
            self.helpers.push(
                *lines(item.sig.ident.span()).start()
                    ..=*lines(item.block.brace_token.span.close()).end(),
            );
        } else {
            self.functions.insert(item.sig.ident.to_string(), place_of_seed(&item.sig));
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_expr_for_loop(&mut self, item: &'a syn::ExprForLoop) {
        self.look(&item.pat, &item.expr, "a seed that counts from a number written here");
        visit::visit_expr_for_loop(self, item);
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if let Pat::Ident(name) = &local.pat {
            let line = name.ident.span().start().line;
            self.functions.entry(name.ident.to_string()).or_insert((None, line));
        }
        if let Some(init) = &local.init {
            self.look(&local.pat, &init.expr, "a seed that is written here");
        }
        visit::visit_local(self, local);
    }
}

/// Calls `fault` for each call that creates a generator without a seed, or passes a literal as a
/// seed.
fn calls(
    tokens: TokenStream,
    functions: &dyn Fn(&str) -> Option<usize>,
    fault: &mut impl FnMut(usize, String),
) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (nth, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            calls(group.stream(), functions, fault);
        }
        let (TokenTree::Ident(ident), Some(TokenTree::Group(group))) = (token, tokens.get(nth + 1))
        else {
            continue;
        };
        let before =
            |back: usize| nth.checked_sub(back).map_or(String::new(), |at| tokens[at].to_string());
        if group.delimiter() != Delimiter::Parenthesis || before(1) == "fn" || before(1) == "." {
            continue;
        }
        let (name, line) = (ident.to_string(), ident.span().start().line);
        let of = if before(1) == ":" { before(3) } else { String::new() };
        if MADE.contains(&&*name) && !names_seed(group.stream()) {
            fault(line, format!("a generator is made from `{}`", group.stream()));
        } else if UNSEEDED.contains(&&*name)
            || (of == "Rng" && name == "new")
            || (of == "fastrand" && !MADE.contains(&&*name))
        {
            fault(line, format!("`{name}` draws from a generator that no seed is given to"));
        } else if let Some(place) = functions(&if of.contains(char::is_uppercase) {
            format!("{of}::{name}")
        } else {
            name.clone()
        }) && let Some(argument) = arguments(group.stream()).into_iter().nth(place)
        {
            let mut found = Vec::new();
            idents(argument.clone(), &mut found);
            let has_number = argument.to_string().contains(|sign: char| sign.is_ascii_digit());
            if found.is_empty() && has_number {
                fault(line, format!("`{name}` is given the seed `{argument}`"));
            }
        }
    }
}

/// Counts, by crate, the seeds that `UZRAM_SEED` does not set.
fn counts(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    // For each crate, the functions with a parameter named `seed`.
    let mut functions: HashMap<&str, HashMap<String, Function>> = HashMap::new();
    let mut sources = Vec::new();
    for (path, text) in tree.files("rs") {
        let (source, mut named) = (Source::new(path, text), Named::default());
        named.visit_file(&source.file);
        // Only functions of tests count. Other functions with a parameter named `seed` can receive
        // any value.
        named.functions.retain(|_, function| tree.is_test(path, function.1));
        let with_seed = named.functions.iter().filter(|(_, function)| function.0.is_some());
        let with_seed = with_seed.map(|(name, function)| (name.clone(), *function));
        functions.entry(tree.crate_of(path)).or_default().extend(with_seed);
        sources.push((path, text, source, named));
    }
    for (path, text, source, named) in sources {
        let (place, mut seen) = (tree.crate_of(path), BTreeSet::new());
        let is_test = |line: usize| tree.is_test(path, line);
        let mut fault = |line: usize, what: String| {
            if is_test(line)
                && !named.helpers.iter().any(|lines| lines.contains(&line))
                && seen.insert(line)
            {
                add(&mut counts, place, format!("{path}:{line}: {what}"));
            }
        };
        let place_in = |name: &str| named.functions.get(name).or(functions[place].get(name))?.0;
        calls(source.tokens.clone(), &|name| place_in(name), &mut fault);
        named.fixed.iter().for_each(|(line, what)| fault(*line, (*what).to_owned()));
        for lines in named.helpers.iter().filter(|lines| is_test(*lines.start())) {
            let mut body = text.lines().skip(*lines.start() - 1).take(lines.clone().count());
            if !body.any(|line| line.contains("\"UZRAM_SEED\"")) {
                add(
                    &mut counts,
                    place,
                    format!("{path}:{}: the helper does not read UZRAM_SEED", lines.start()),
                );
            }
        }
    }
    counts
}

#[test]
fn seeds_can_be_set() {
    ratchet::hold(&[("fixed-seeds", REMEDY, &counts(Tree::disk()))]);
}

#[test]
fn fixed_seeds_are_found() {
    let text = "fn seed(own: u64) -> u64 \
        {\n    std::env::var(\"UZRAM_SEED\").map_or(fastrand::u64(..), f)\n}\n\
        fn noise(len: usize, seed: u64) { Rng::with_seed(seed ^ 7); }\n\
        fn good() { Rng::with_seed(seed(SEED)); let seed = seed(1); for seed in seeds(2) {} \
            noise(1, seed); noise(2, seed(5)); }\n\
        fn bad() {\n    Rng::with_seed(7);\n    assert!(StdRng::seed_from_u64(nth << \
            2));\n    Rng::with_seed(SEED);\n    Rng::new();\n\
            fastrand::u8(..);\n    for seed in 0..8 {}\n    let seed = 7u64;\n    noise(3, 1 << \
                4);\n    Xorshift::new(5);\n    let part = 1;\n    part(5);\n}\n\
        struct Xorshift; impl Xorshift { fn new(seed: u64) {} }\nfn part(x: u8) {}\n";
    let product = "fn f() { Rng::with_seed(7); }\n#[cfg(test)]\nmod tests {\nfn g() { \
        Rng::with_seed(7); }\nfn seed() -> u64 { 7 } }\n";
    let tree = Tree::of(&[
        ("a/Cargo.toml", ""),
        ("a/tests/t.rs", text),
        ("a/tests/u.rs", "fn part(seed: u8) {}"),
        ("b/Cargo.toml", ""),
        ("b/src/lib.rs", product),
    ]);
    let counts = counts(&tree);
    let expected = [
        "a/tests/t.rs:7: a generator is made from `7`",
        "a/tests/t.rs:8: a generator is made from `nth << 2`",
        "a/tests/t.rs:9: a generator is made from `SEED`",
        "a/tests/t.rs:10: `new` draws from a generator that no seed is given to",
        "a/tests/t.rs:11: `u8` draws from a generator that no seed is given to",
        "a/tests/t.rs:14: `noise` is given the seed `1 << 4`",
        "a/tests/t.rs:15: `new` is given the seed `5`",
        "a/tests/t.rs:12: a seed that counts from a number written here",
        "a/tests/t.rs:13: a seed that is written here",
    ];
    assert_eq!(counts["a"].faults, expected);
    let expected = [
        "b/src/lib.rs:4: a generator is made from `7`",
        "b/src/lib.rs:5: the helper does not read UZRAM_SEED",
    ];
    assert_eq!(counts["b"].faults, expected);
}
