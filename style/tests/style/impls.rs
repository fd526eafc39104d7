//! The inherent methods of a type must be in one file. Calls of inherent methods must form no cycle
//! among the files of a crate.
//!
//! For each crate, the rule counts the files that contain methods of a type (except the first file
//! of each type), and the files in cycles. Two forms of calls are recognized: `Type::name()`, and
//! `value.name()` if `value` is `self`, a parameter, or a field of either.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, FnArg, ImplItem, Item, Pat, PathArguments};

use crate::modules::{Module, Modules};
use crate::ratchet::{self, Count, Counts, add};
use crate::scope::Graph;
use crate::source::is_of_tests;
use crate::tree::Tree;

const SPLIT: &str = "Join the files, or make the methods of one file those of a type of its own, \
    or free functions.";
const CYCLE: &str = "Move the methods that both files call into a file below them.";

/// Pointer types. A method call on a pointer counts as a call on the value to which the pointer
/// refers.
const POINTERS: [&str; 3] = ["Arc", "Box", "Rc"];

/// The index of the module that defines a type, and the type's name.
type Type = (usize, String);

struct Types<'m> {
    graph: Graph,
    fields: HashMap<(Type, String), Type>,
    /// The file of each inherent method.
    methods: HashMap<(Type, String), &'m str>,
    /// For each type, the files with its inherent methods, and the line of the first impl in each
    /// file.
    files: BTreeMap<Type, BTreeMap<&'m str, usize>>,
}

impl<'m> Types<'m> {
    fn of(modules: &'m [Module]) -> Self {
        let graph = Graph::of(modules);
        let (fields, methods, files) = (HashMap::new(), HashMap::new(), BTreeMap::new());
        let mut types = Self { graph, fields, methods, files };
        for (at, module) in modules.iter().enumerate() {
            for item in &module.items {
                match item {
                    Item::Struct(item) => {
                        for (nth, field) in item.fields.iter().enumerate() {
                            let name = field.ident.as_ref().map(ToString::to_string);
                            let key = (at, item.ident.to_string());
                            if let Some(to) = types.find(at, &field.ty) {
                                types.fields.insert((key, name.unwrap_or(nth.to_string())), to);
                            }
                        }
                    }
                    Item::Impl(item) if item.trait_.is_none() => types.add(at, module, item),
                    _ => {}
                }
            }
        }
        types
    }

    fn add(&mut self, at: usize, module: &'m Module, item: &syn::ItemImpl) {
        let Some(own) = self.find(at, &item.self_ty) else { return };
        let line = item.impl_token.span().start().line;
        for method in &item.items {
            if let ImplItem::Fn(method) = method
                && !is_of_tests(&method.attrs)
            {
                self.methods.insert((own.clone(), method.sig.ident.to_string()), &module.file);
                self.files.entry(own.clone()).or_default().entry(&module.file).or_insert(line);
            }
        }
    }

    /// Returns the type of the crate that `ty` names or refers to. `ty` is in the module `at`.
    fn find(&self, at: usize, ty: &syn::Type) -> Option<Type> {
        let path = match ty {
            syn::Type::Reference(inner) => return self.find(at, &inner.elem),
            syn::Type::Path(path) => &path.path,
            _ => return None,
        };
        let last = path.segments.last()?;
        if let PathArguments::AngleBracketed(list) = &last.arguments
            && POINTERS.iter().any(|name| last.ident == name)
            && let Some(syn::GenericArgument::Type(inner)) = list.args.first()
        {
            return self.find(at, inner);
        }
        let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        Some((self.graph.module_of(at, &names)?, last.ident.to_string()))
    }
}

/// Collects the calls in a module.
struct Calls<'c> {
    types: &'c Types<'c>,
    at: usize,
    /// The type of `Self`.
    own: Option<Type>,
    /// The types of `self` and of parameters.
    values: HashMap<String, Type>,
    /// The files of the called methods, with the first line of each.
    found: BTreeMap<&'c str, usize>,
}

impl Calls<'_> {
    fn type_of(&self, value: &Expr) -> Option<Type> {
        match value {
            Expr::Path(path) => self.values.get(&path.path.get_ident()?.to_string()).cloned(),
            Expr::Field(field) => {
                let name = match &field.member {
                    syn::Member::Named(name) => name.to_string(),
                    syn::Member::Unnamed(nth) => nth.index.to_string(),
                };
                self.types.fields.get(&(self.type_of(&field.base)?, name)).cloned()
            }
            _ => None,
        }
    }

    fn call(&mut self, of: Option<Type>, name: &syn::Ident) {
        let called = of.and_then(|of| self.types.methods.get(&(of, name.to_string())));
        called.map(|file| self.found.entry(file).or_insert(name.span().start().line));
    }
}

impl<'a> Visit<'a> for Calls<'_> {
    fn visit_item_mod(&mut self, _: &'a syn::ItemMod) {}

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        self.own = self.types.find(self.at, &item.self_ty);
        visit::visit_item_impl(self, item);
        self.own = None;
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_of_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'a syn::Signature) {
        self.values.clear();
        for input in &signature.inputs {
            let (name, of) = match input {
                FnArg::Receiver(_) => ("self".to_owned(), self.own.clone()),
                FnArg::Typed(input) => {
                    let Pat::Ident(name) = &*input.pat else { continue };
                    (name.ident.to_string(), self.types.find(self.at, &input.ty))
                }
            };
            self.values.extend(of.map(|of| (name, of)));
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        self.call(self.type_of(&call.receiver), &call.method);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'a syn::ExprPath) {
        let mut names: Vec<_> = path.path.segments.iter().map(|part| &part.ident).collect();
        if let Some(name) = names.pop()
            && let Some(last) = names.last()
        {
            let texts: Vec<_> = names.iter().map(ToString::to_string).collect();
            let module = || self.types.graph.module_of(self.at, &texts);
            let of = if *last == "Self" { self.own.clone() } else { None };
            self.call(of.or_else(|| Some((module()?, last.to_string()))), name);
        }
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        let parser = Punctuated::<Expr, syn::Token![,]>::parse_terminated;
        if let Ok(values) = call.parse_body_with(parser) {
            values.iter().for_each(|value| self.visit_expr(value));
        }
    }
}

/// Counts the files of a crate that are in cycles, and lists the calls within each cycle.
fn add_cycles(modules: &[Module], types: &Types, count: &mut Count) {
    let mut calls = DiGraphMap::<&str, usize>::new();
    for (at, module) in modules.iter().enumerate() {
        let (values, found) = (HashMap::new(), BTreeMap::new());
        let mut own = Calls { types, at, own: None, values, found };
        module.items.iter().for_each(|item| own.visit_item(item));
        for (file, line) in own.found {
            calls.add_edge(module.file.as_str(), file, line);
        }
    }
    for group in tarjan_scc(&calls).into_iter().filter(|group| group.len() > 1) {
        count.number += group.len();
        let inside: BTreeSet<_> = group.into_iter().collect();
        let inner = calls
            .all_edges()
            .filter(|(from, to, _)| from != to && inside.contains(from) && inside.contains(to));
        count.faults.extend(inner.map(|(from, to, line)| format!("{from}:{line} calls {to}")));
    }
}

/// Counts, by crate, the files that contain methods of a type (except the first file of each type),
/// and the files in cycles.
fn counts(tree: &Tree) -> (Counts, Counts) {
    let (mut split, mut cycles) = (Counts::new(), Counts::new());
    for dir in tree.crates() {
        let mut count = Count::default();
        for root in Modules::roots(tree, dir) {
            let modules = Modules::of(tree, &root).product;
            let types = Types::of(&modules);
            for ((_, name), files) in types.files.iter().filter(|(_, files)| files.len() > 1) {
                for (file, line) in files.iter().skip(1) {
                    add(&mut split, dir, format!("{file}:{line}: {name}"));
                }
            }
            add_cycles(&modules, &types, &mut count);
        }
        if count.number > 0 {
            cycles.insert(dir.into(), count);
        }
    }
    (split, cycles)
}

#[test]
fn methods_of_a_type_are_in_one_file_and_call_in_one_direction() {
    let (split, cycles) = counts(Tree::disk());
    ratchet::hold(&[("split-impls", SPLIT, &split), ("call-cycles", CYCLE, &cycles)]);
}

/// Returns the violations in a crate with the modules `b` and `c`.
#[cfg(test)]
fn planted(b: &str, c: &str) -> (Vec<String>, Vec<String>) {
    let files = [
        ("a/Cargo.toml", ""),
        ("a/src/lib.rs", "mod b; mod c;"),
        ("a/src/b.rs", b),
        ("a/src/c.rs", c),
    ];
    let (split, cycles) = counts(&Tree::of(&files));
    let of = |counts: &Counts| counts.get("a").map_or(Vec::new(), |count| count.faults.clone());
    (of(&split), of(&cycles))
}

#[test]
fn a_second_file_of_methods_is_found() {
    let b = "pub struct B; impl B { fn f() {} } impl<T> Other<T> { fn f() {} }";
    let split = |c| planted(b, c).0;
    assert_eq!(split("\nuse crate::b::B as D; impl D { fn g() {} }"), [""; 0]);
    assert_eq!(split("\nuse crate::b::B; impl B { fn g() {} }"), ["a/src/c.rs:2: B"]);
    assert_eq!(split("impl crate::b::B { fn g() {} }"), ["a/src/c.rs:1: B"]);
    for c in [
        "use crate::b::B; impl Clone for B { fn g() {} }",
        "struct B; impl B { fn g() {} }",
        "use crate::b::B; #[cfg(test)] impl B { fn g() {} }",
        "use crate::b::B; impl B { #[cfg(test)] fn g() {} }",
    ] {
        assert_eq!(split(c), [""; 0], "{c}");
    }
}

#[test]
fn a_cycle_of_calls_is_found() {
    let c = "pub struct C; impl C { pub fn g(&self) { crate::b::B::f(); } }";
    for calls in [
        "impl C { fn h(&self) { self.g(); } }",
        "fn h(c: &C) { assert!(c.g() > 1); }",
        "fn h() { C::g(&C); }",
        "fn h() { x.map(C::g) }",
        "struct D { c: Box<C> } impl D { fn h(&self) { self.c.g(); } }",
        "struct D(C); impl Drop for D { fn drop(&mut self) { self.0.g(); } }",
    ] {
        let b = format!("use crate::c::C; pub struct B; impl B {{ pub fn f() {{}} }} {calls}");
        let expected = ["a/src/b.rs:1 calls a/src/c.rs", "a/src/c.rs:1 calls a/src/b.rs"];
        assert_eq!(planted(&b, c).1, expected, "{calls}");
    }
    for calls in ["", "fn h(c: &D) { c.g(); }", "#[cfg(test)] fn h(c: &C) { c.g(); }"] {
        let b = format!("use crate::c::C; pub struct B; impl B {{ pub fn f() {{}} }} {calls}");
        assert_eq!(planted(&b, c).1, [""; 0], "{calls}");
    }
}
