//! Tests that `uzram.h` declares the same functions, constants and structs as the code.

use crate::support::{HERE, Language, compiled, installed, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use uzram_capi::{constants, structs};

fn header() -> String {
    std::fs::read_to_string(Path::new(HERE).join("include/uzram.h")).unwrap()
}

/// Returns the header without comments.
fn code() -> String {
    let header = header();
    let (before, commented) = header.split_once("/*").unwrap();
    let behind = commented.split("/*").map(|comment| comment.split_once("*/").unwrap().1);
    std::iter::once(before).chain(behind).collect()
}

/// Returns the functions that the header declares.
pub fn declared() -> BTreeSet<String> {
    let code = code();
    let statements = code.split(';').filter_map(|statement| statement.rsplit_once('('));
    let names = statements.filter_map(|(before, _)| before.rsplit([' ', '*', '\n']).next());
    // A name with a closing parenthesis is a function type.
    let functions = names.filter(|name| name.starts_with("uzram_") && !name.ends_with(')'));
    functions.map(str::to_owned).collect()
}

/// Returns the names that a library defines, according to `nm`. `library` is a file name in the
/// installed folder, or a path.
pub fn exported(library: &str, options: &[&str]) -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    let output = run(nm.args(options).arg(installed().join("lib").join(library)));
    let text = String::from_utf8(output.stdout).unwrap();
    let symbols = text.lines().filter(|line| line.split_whitespace().count() == 3);
    symbols.map(|line| line.split_whitespace().last().unwrap().to_owned()).collect()
}

#[test]
fn every_function_is_declared_exported_and_versioned() {
    let declared = declared();
    assert!(declared.len() > 40, "{declared:?}");
    let node = "@@UZRAM_0.1";
    let versioned: BTreeSet<_> = declared.iter().map(|name| format!("{name}{node}")).collect();
    let mut shared = exported("libuzram.so", &["-D", "--defined-only"]);
    // The name of the version node itself is not a function.
    shared.retain(|name| !name.starts_with("UZRAM_"));
    assert_eq!(shared, versioned);
    assert_eq!(exported("libuzram.a", &["-g", "--defined-only"]), declared);
}

#[test]
fn the_library_is_found_by_its_soname() {
    let mut readelf = Command::new("readelf");
    let output = run(readelf.arg("-d").arg(installed().join("lib/libuzram.so")));
    let text = String::from_utf8(output.stdout).unwrap();
    // Before 1.0, the interface can change in each minor version.
    assert!(text.contains("Library soname: [libuzram.so.0.1]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
    let real = installed().join("lib/libuzram.so.0.1").canonicalize().unwrap();
    let name = format!("libuzram.so.{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(real.file_name().unwrap().to_str().unwrap(), name);
}

/// Returns the structs of the header: for each struct, its fields in order.
fn declared_structs() -> BTreeMap<String, Vec<String>> {
    let code = code();
    let mut found = BTreeMap::new();
    for piece in code.split("struct ").skip(1) {
        let Some((name, rest)) = piece.split_once(" {\n") else { continue };
        if name.contains(|letter: char| !letter.is_alphanumeric() && letter != '_') {
            continue;
        }
        let body = rest.split_once("};").unwrap().0;
        let names = body.split(';').filter_map(|field| field.trim().rsplit([' ', '*']).next());
        let names = names.map(|name| name.split('[').next().unwrap().to_owned());
        found.insert(name.to_owned(), names.filter(|name| !name.is_empty()).collect());
    }
    found
}

#[test]
fn every_struct_is_declared_as_it_is() {
    let fields = |of: &uzram_capi::Struct| {
        let names = of.fields.iter().map(|field| field.name.to_owned());
        (of.name.to_owned(), names.collect())
    };
    let ours: BTreeMap<String, Vec<String>> = structs().iter().map(fields).collect();
    assert_eq!(declared_structs(), ours);
}

/// Returns the constants of the header, except versions and macros.
fn declared_constants() -> BTreeSet<String> {
    let code = code();
    let defined = code.lines().filter_map(|line| line.strip_prefix("#define UZRAM_"));
    let names = defined.filter_map(|line| line.split_once(' ')).map(|(name, _)| name);
    let others = |name: &&str| !name.starts_with("VERSION_") && !name.contains('(');
    names.filter(others).map(str::to_owned).collect()
}

/// Returns the sizes, offsets and values that a program compiled as `language` prints, as lines.
fn found_by(language: Language) -> String {
    let mut source =
        String::from("#include \"uzram.h\"\n#include <stddef.h>\n#include <stdio.h>\n");
    source += "int main(void)\n{\n";
    for of in structs() {
        let name = of.name;
        writeln!(source, "printf(\"{name} %d\\n\", (int)sizeof(struct {name}));").unwrap();
        for field in of.fields {
            let field = field.name;
            let bytes = format!("(int)sizeof(((struct {name} *)0)->{field})");
            let offset = format!("(int)offsetof(struct {name}, {field})");
            writeln!(source, "printf(\"{field} %d %d\\n\", {offset}, {bytes});").unwrap();
        }
    }
    for (name, _) in constants() {
        writeln!(source, "printf(\"{name} %d\\n\", (int)UZRAM_{name});").unwrap();
    }
    source += "return 0;\n}\n";
    let dir = tempfile::tempdir().unwrap();
    let (path, program) = (dir.path().join("layout.c"), dir.path().join("layout"));
    std::fs::write(&path, source).unwrap();
    compiled(language, &[path], &program, &[]);
    String::from_utf8(run(&mut Command::new(program)).stdout).unwrap()
}

#[test]
fn sizes_offsets_and_constants_are_the_same() {
    let names: BTreeSet<_> = constants().iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(declared_constants(), names);
    let mut expected = String::new();
    for of in structs() {
        writeln!(expected, "{} {}", of.name, of.bytes).unwrap();
        for field in of.fields {
            writeln!(expected, "{} {} {}", field.name, field.offset, field.bytes).unwrap();
        }
    }
    for (name, value) in constants() {
        writeln!(expected, "{name} {value}").unwrap();
    }
    assert_eq!(found_by(Language::C), expected);
    assert_eq!(found_by(Language::Cpp), expected);
}
