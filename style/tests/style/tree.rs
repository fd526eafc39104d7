//! The files of the repository, or of a small tree in which a test plants violations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::modules;
use crate::source::Facts;

/// Directories without sources: outputs, inputs of fuzzers, and files outside of the repository.
const LEFT_OUT: [&str; 5] = ["target", "artifacts", "corpus", "coverage", "shared"];
/// A generated document. A test of `bench` compares this document with the results.
const GENERATED: &str = "docs/results/report.md";
/// Rules read the text of files of these kinds. Rules use only the names of other files.
const TEXTS: [&str; 17] = [
    "c", "cc", "conf", "h", "hpp", "in", "js", "jsonl", "md", "py", "pyi", "rs", "s", "sh",
    "socket", "toml", "txt",
];
/// Rules also read the text of files with these names, which have no kind.
const TEXTS_BY_NAME: [&str; 3] = ["Makefile", "postinst", "postrm"];

/// The files, in the order of their paths. A path begins at the root and has the separator `/`.
pub struct Tree {
    files: BTreeMap<String, String>,
    facts: OnceLock<BTreeMap<String, Facts>>,
    tests: OnceLock<BTreeSet<String>>,
}

/// Returns the directory of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Adds the files below a directory. Does not follow links.
fn read(dir: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with('.') || LEFT_OUT.contains(&&*name) {
            continue;
        }
        let (path, kind) = (format!("{prefix}{name}"), entry.file_type().unwrap());
        if kind.is_dir() {
            read(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file() {
            let is_text = path != GENERATED
                && (TEXTS.contains(&kind_of(&name)) || TEXTS_BY_NAME.contains(&&*name));
            let text =
                if is_text { fs::read_to_string(entry.path()).unwrap() } else { String::new() };
            files.insert(path, text);
        }
    }
}

/// Resolves `.` and `..` in `path`. Returns `None` if the path leads out of the repository.
pub fn normal(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the directory of a file, or "" for a file in the root.
pub fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the kind of a file: the part of its name after the last dot, or "".
pub fn kind_of(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, kind)| kind)
}

/// Resolves `path` relative to the directory `from`.
pub fn joined(from: &str, path: &str) -> Option<String> {
    normal(&format!("{from}/{path}"))
}

impl Tree {
    fn new(files: BTreeMap<String, String>) -> Self {
        Self { files, facts: OnceLock::new(), tests: OnceLock::new() }
    }

    /// Returns the tree of the repository. Only the first call reads the files.
    pub fn disk() -> &'static Self {
        static TREE: OnceLock<Tree> = OnceLock::new();
        TREE.get_or_init(|| {
            let mut files = BTreeMap::new();
            read(root(), "", &mut files);
            Self::new(files)
        })
    }

    /// Returns a tree with the given files.
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self::new(files.iter().map(|&(path, text)| (path.into(), text.into())).collect())
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns whether a file or a directory exists.
    pub fn has(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(inside.clone()..)
                .next()
                .is_some_and(|(path, _)| path.starts_with(&inside))
    }

    /// Returns true if the path of any file ends with a slash and `end`.
    pub fn has_end(&self, end: &str) -> bool {
        let end = format!("/{end}");
        self.files.keys().any(|path| path.ends_with(&end))
    }

    /// Returns all files. The text of a file that no rule reads is empty.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the files whose names end with `.kind`.
    pub fn files(&self, kind: &str) -> impl Iterator<Item = (&str, &str)> {
        let end = format!(".{kind}");
        let texts = self.files.iter().filter(move |(path, _)| path.ends_with(&end));
        texts.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the properties of a Rust file's lines.
    pub fn facts(&self, path: &str) -> &Facts {
        let all = self.facts.get_or_init(|| {
            self.files("rs").map(|(path, text)| (path.to_owned(), Facts::new(path, text))).collect()
        });
        &all[path]
    }

    /// Returns whether a file is compiled only into tests, or is a fuzz target.
    pub fn is_test_file(&self, path: &str) -> bool {
        self.tests.get_or_init(|| modules::test_files(self)).contains(path)
    }

    /// Returns whether the line is compiled only into tests or models.
    pub fn is_test(&self, path: &str, line: usize) -> bool {
        self.is_test_file(path) || self.facts(path).is_test(line)
    }

    /// Returns the directories of packages.
    pub fn crates(&self) -> impl Iterator<Item = &str> {
        let manifests = self.files.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"));
        manifests.filter(|dir| !dir.is_empty())
    }

    /// Returns the directory of the file's package, or "" if the file belongs to no package.
    pub fn crate_of(&self, path: &str) -> &str {
        let holds = |dir: &&str| path.strip_prefix(*dir).is_some_and(|rest| rest.starts_with('/'));
        self.crates().filter(holds).max_by_key(|dir| dir.len()).unwrap_or("")
    }
}

#[test]
fn paths_are_resolved() {
    assert_eq!(joined("crates/a/src", "../../b/x.rs").unwrap(), "crates/b/x.rs");
    assert_eq!(joined("", "./a//b").unwrap(), "a/b");
    assert_eq!(joined("a", "../../b"), None);
    let tree = Tree::of(&[("a/Cargo.toml", ""), ("a/src/lib.rs", ""), ("ab/x", "")]);
    assert_eq!((tree.crate_of("a/src/lib.rs"), tree.crate_of("ab/x")), ("a", ""));
    assert!(tree.has("a/src") && tree.has("ab/x") && !tree.has("a/sr") && !tree.has("b"));
}
