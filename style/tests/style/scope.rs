//! Resolves names in the modules of a crate, and finds the modules that each module uses.
//!
//! A name is followed through `use` and re-exports to the module that defines it. A name that is
//! not found belongs to another crate, a local variable, or a field.

use std::collections::{BTreeMap, HashMap, HashSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, UseTree};

use crate::modules::Module;
use crate::source::{attrs_of, is_of_tests};

/// The modules and names that the resolution of a path has visited, to detect cycles.
type Seen = HashSet<(usize, String)>;

enum Name {
    Module(usize),
    /// An item that the module itself defines.
    Item,
    /// An imported name, with the path in its `use`.
    Alias(Vec<String>),
}

/// The names that a module defines or imports, and the paths that the module uses.
struct Scope {
    parent: Option<usize>,
    names: HashMap<String, Name>,
    /// The paths of `use path::*`.
    globs: Vec<Vec<String>>,
    /// The paths that the module uses, with their lines.
    uses: Vec<(Vec<String>, usize)>,
}

/// The modules of a crate, and the uses between them.
pub struct Graph {
    scopes: Vec<Scope>,
}

/// Collects the `use` items and the paths of a module, also in arguments of macros. Inner modules
/// have collectors of their own.
struct Collector<'s>(&'s mut Scope);

impl Collector<'_> {
    fn tree(&mut self, tree: &UseTree, way: &[String]) {
        let with =
            |ident: &syn::Ident| way.iter().cloned().chain([ident.to_string()]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => self.tree(&path.tree, &with(&path.ident)),
            UseTree::Name(name) if name.ident == "self" => {
                let last = way.last().unwrap().clone();
                self.import(last, way.to_vec(), name.ident.span().start().line);
            }
            UseTree::Name(name) => {
                self.import(
                    name.ident.to_string(),
                    with(&name.ident),
                    name.ident.span().start().line,
                );
            }
            UseTree::Rename(name) => {
                let path = if name.ident == "self" { way.to_vec() } else { with(&name.ident) };
                self.import(name.rename.to_string(), path, name.ident.span().start().line);
            }
            UseTree::Glob(glob) => {
                self.0.uses.push((way.to_vec(), glob.star_token.spans[0].start().line));
                self.0.globs.push(way.to_vec());
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(tree, way)),
        }
    }

    fn import(&mut self, name: String, path: Vec<String>, line: usize) {
        self.0.uses.push((path.clone(), line));
        // If the module `a` is declared, `a` still names this module after `use a::a`.
        self.0.names.entry(name).or_insert(Name::Alias(path));
    }

    /// Collects paths in unparsed tokens, such as `a :: b`.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons, mut line) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 && !path.is_empty() {
                        self.0.uses.push((std::mem::take(&mut path), line));
                    }
                    (line, colons) = (ident.span().start().line, 0);
                    path.push(ident.to_string());
                }
                token => {
                    self.0.uses.push((std::mem::take(&mut path), line));
                    colons = 0;
                    if let TokenTree::Group(group) = token {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.0.uses.push((path, line));
    }
}

impl<'a> Visit<'a> for Collector<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_of_tests(attrs_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, _: &'a syn::ItemMod) {}

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_of_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter().map(|part| part.ident.to_string()).collect();
            self.0.uses.push((names, path.segments[0].ident.span().start().line));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

/// Returns the name that an item defines in its module.
fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

impl Graph {
    /// Collects the names and the uses of each of `modules`.
    pub fn of(modules: &[Module]) -> Self {
        let numbers: HashMap<&[String], usize> =
            modules.iter().enumerate().map(|(nth, module)| (&module.path[..], nth)).collect();
        let mut scopes: Vec<Scope> = Vec::new();
        for module in modules {
            let parent = module.path.split_last().map(|(_, rest)| numbers[rest]);
            let items = module.items.iter().filter_map(name_of).map(|name| (name, Name::Item));
            scopes.push(Scope {
                parent,
                names: items.collect(),
                globs: Vec::new(),
                uses: Vec::new(),
            });
        }
        for (nth, module) in modules.iter().enumerate() {
            if let (Some(parent), Some(name)) = (scopes[nth].parent, module.path.last()) {
                scopes[parent].names.insert(name.clone(), Name::Module(nth));
            }
        }
        for (scope, module) in scopes.iter_mut().zip(modules) {
            let mut collector = Collector(scope);
            module.items.iter().for_each(|item| collector.visit_item(item));
        }
        Self { scopes }
    }

    /// Returns the module that defines the name of `path`, which the module `from` uses. Returns
    /// `None` if the name does not belong to this crate.
    fn resolve(&self, from: usize, path: &[String], seen: &mut Seen) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => {
                self.walk(self.scopes.iter().position(|scope| scope.parent.is_none())?, rest, seen)
            }
            "self" => self.walk(from, rest, seen),
            "super" => self.walk(self.scopes[from].parent?, rest, seen),
            _ => self.named(from, first, rest, seen),
        }
    }

    /// Resolves `name` in the module `at`, and then the path `rest` from the result.
    fn named(&self, at: usize, name: &str, rest: &[String], seen: &mut Seen) -> Option<usize> {
        match self.scopes[at].names.get(name) {
            Some(Name::Module(inner)) => self.walk(*inner, rest, seen),
            Some(Name::Item) => Some(at),
            Some(Name::Alias(path)) => {
                let key = (at, name.to_owned());
                if !seen.insert(key.clone()) {
                    return None;
                }
                let path: Vec<String> = path.iter().chain(rest).cloned().collect();
                let found = self.resolve_import(at, &path, seen);
                seen.remove(&key);
                found
            }
            None => {
                // Two modules can import all names of each other, so each module is searched only
                // once for a name.
                if !seen.insert((at, name.to_owned())) {
                    return None;
                }
                self.scopes[at].globs.iter().find_map(|glob| {
                    let module = self.resolve(at, glob, seen)?;
                    self.named(module, name, rest, seen)
                })
            }
        }
    }

    /// Resolves the path of a `use`. Such a path does not begin with a name that another `use`
    /// imports.
    fn resolve_import(&self, from: usize, path: &[String], seen: &mut Seen) -> Option<usize> {
        match self.scopes[from].names.get(&path[0]) {
            Some(Name::Alias(_)) => None,
            _ => self.resolve(from, path, seen),
        }
    }

    fn walk(&self, at: usize, rest: &[String], seen: &mut Seen) -> Option<usize> {
        match rest.split_first() {
            None => Some(at),
            Some((name, rest)) if name == "super" => self.walk(self.scopes[at].parent?, rest, seen),
            // An unknown name may be a variant or a macro's item, so it is attributed to the module
            // of the path.
            Some((name, rest)) => Some(self.named(at, name, rest, seen).unwrap_or(at)),
        }
    }

    /// Returns the module that defines the name of `path`, which the module `from` uses.
    pub fn module_of(&self, from: usize, path: &[String]) -> Option<usize> {
        self.resolve(from, path, &mut Seen::new())
    }

    /// Returns whether one of two modules contains the other.
    fn are_related(&self, one: usize, other: usize) -> bool {
        let has = |mut inner: usize, outer: usize| loop {
            if inner == outer {
                return true;
            }
            match self.scopes[inner].parent {
                Some(parent) => inner = parent,
                None => return false,
            }
        };
        has(one, other) || has(other, one)
    }

    /// Returns the uses between modules, with the first line of each use. Ignores uses between a
    /// module and the modules that contain it.
    pub fn edges(&self) -> BTreeMap<(usize, usize), usize> {
        let mut edges = BTreeMap::new();
        for (from, scope) in self.scopes.iter().enumerate() {
            for (path, line) in scope.uses.iter().filter(|(path, _)| !path.is_empty()) {
                if let Some(to) = self.resolve(from, path, &mut Seen::new())
                    && !self.are_related(from, to)
                {
                    let first = edges.entry((from, to)).or_insert(*line);
                    *first = (*first).min(*line);
                }
            }
        }
        edges
    }
}
