//! The modules of a crate, found from its root, and the files that contain only tests.

use std::collections::BTreeSet;

use syn::{Expr, Item, Lit, Meta};

use crate::source::{Source, attrs_of, is_of_tests};
use crate::tree::{Tree, folder, joined};

/// A module, without the items that exist only in tests and models.
pub struct Module {
    /// The names in the module's path, which is empty for the root.
    pub path: Vec<String>,
    pub file: String,
    pub items: Vec<Item>,
}

/// The modules of a root, and the test files that they declare.
#[derive(Default)]
pub struct Modules {
    pub product: Vec<Module>,
    pub tests: BTreeSet<String>,
}

pub fn path_attr(attrs: &[syn::Attribute]) -> Option<String> {
    attrs.iter().find_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(value) => match &value.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

/// Replaces each module with `#[path = "."]` by its items. Such a module only groups other modules,
/// whose files lie beside this file.
fn without_frames(items: Vec<Item>) -> Vec<Item> {
    let unframed = |item: Item| match item {
        Item::Mod(module) if path_attr(&module.attrs).as_deref() == Some(".") => {
            without_frames(module.content.map_or_else(Vec::new, |(_, items)| items))
        }
        other => vec![other],
    };
    items.into_iter().flat_map(unframed).collect()
}

impl Modules {
    /// Adds the modules inside a module, then the module itself. The files of the inner modules are
    /// in `dir`.
    fn add(
        &mut self,
        tree: &Tree,
        path: Vec<String>,
        file: &str,
        dir: &str,
        items: Vec<Item>,
        test: bool,
    ) {
        let items = without_frames(items);
        for item in &items {
            let Item::Mod(module) = item else { continue };
            let test = test || is_of_tests(&module.attrs);
            let name = module.ident.to_string();
            let own: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
            if let Some((_, inner)) = &module.content {
                self.add(tree, own, file, &format!("{dir}/{name}"), inner.clone(), test);
                continue;
            }
            let given = path_attr(&module.attrs).and_then(|path| joined(folder(file), &path));
            let usual = [format!("{dir}/{name}.rs"), format!("{dir}/{name}/mod.rs")];
            let found = given.into_iter().chain(usual).find(|path| tree.text(path).is_some());
            let Some(found) = found else { continue };
            let dir = if found.ends_with("/mod.rs") {
                folder(&found).to_owned()
            } else {
                found.replace(".rs", "")
            };
            let source = Source::new(&found, tree.text(&found).unwrap());
            self.add(tree, own, &found, &dir, source.file.items, test);
        }
        if test {
            self.tests.insert(file.to_owned());
        } else {
            let items = items.into_iter().filter(|item| !is_of_tests(attrs_of(item))).collect();
            self.product.push(Module { path, file: file.to_owned(), items });
        }
    }

    /// Returns the modules of a root, such as `src/lib.rs`.
    pub fn of(tree: &Tree, root: &str) -> Self {
        let mut modules = Self::default();
        let source = Source::new(root, tree.text(root).unwrap());
        modules.add(tree, Vec::new(), root, folder(root), source.file.items, false);
        // A file of the product is no test file, even if a test module uses the file too.
        for module in &modules.product {
            modules.tests.remove(&module.file);
        }
        modules
    }

    /// Returns the root files of a crate's library and program.
    pub fn roots(tree: &Tree, dir: &str) -> Vec<String> {
        let usual = ["lib.rs", "main.rs"].map(|name| format!("{dir}/src/{name}"));
        usual.into_iter().filter(|path| tree.text(path).is_some()).collect()
    }
}

/// The crate with shared code of tests. Other crates use it only as a dev-dependency.
const TESTKIT: &str = "testkit";

/// Returns the files that are compiled only into tests, and the fuzz targets.
pub fn test_files(tree: &Tree) -> BTreeSet<String> {
    let is_test = |path: &str| {
        let own = tree.crate_of(path);
        let rest = path.strip_prefix(own).unwrap_or(path);
        let mut dirs = ["/tests/", "/benches/", "/examples/", "/fuzz_targets/"].iter();
        own == TESTKIT || dirs.any(|dir| rest.starts_with(dir))
    };
    let mut files: BTreeSet<_> = tree
        .files("rs")
        .map(|(path, _)| path)
        .filter(|path| is_test(path))
        .map(str::to_owned)
        .collect();
    for root in tree.crates().flat_map(|dir| Modules::roots(tree, dir)) {
        files.extend(Modules::of(tree, &root).tests);
    }
    files
}

#[test]
fn modules_are_found_where_they_lie() {
    let tree = Tree::of(&[
        ("a/Cargo.toml", ""),
        (
            "a/src/lib.rs",
            "mod b; mod d { mod e; } #[path = \".\"] mod all { mod h; } #[cfg(test)] mod t; \
                #[cfg(test)] #[path = \"../x/s.rs\"] mod s;",
        ),
        ("a/src/b.rs", "mod c; #[cfg(test)] mod tests { fn f() {} }"),
        ("a/src/b/c.rs", ""),
        ("a/src/h.rs", ""),
        ("a/src/d/e/mod.rs", "mod g;"),
        ("a/src/d/e/g.rs", ""),
        ("a/src/t.rs", "mod u;"),
        ("a/src/t/u.rs", ""),
        ("a/x/s.rs", ""),
        ("a/tests/v.rs", ""),
        ("testkit/Cargo.toml", ""),
        ("testkit/src/lib.rs", ""),
    ]);
    let modules = Modules::of(&tree, "a/src/lib.rs");
    let mut paths: Vec<_> = modules.product.iter().map(|module| module.path.join("::")).collect();
    paths.sort();
    assert_eq!(paths, ["", "b", "b::c", "d", "d::e", "d::e::g", "h"]);
    let expected = ["a/src/t.rs", "a/src/t/u.rs", "a/tests/v.rs", "a/x/s.rs", "testkit/src/lib.rs"];
    assert_eq!(test_files(&tree).into_iter().collect::<Vec<_>>(), expected);
}
