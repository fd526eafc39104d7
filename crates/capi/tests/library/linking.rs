//! Links the libraries with other libraries into one program. A name in one library must not be
//! resolved to a symbol of another library.

use crate::support::{HERE, Language, compiled, installed, run};
use std::path::Path;
use std::process::Command;

/// Builds the library of `tests/clash/other.rs` in `dir`. Returns its path.
fn other(dir: &Path) -> String {
    let archive = dir.join("libother.a");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "staticlib", "-C", "opt-level=1", "-o"]);
    run(rustc.arg(&archive).arg(Path::new(HERE).join("tests/clash/other.rs")));
    archive.to_str().unwrap().to_owned()
}

fn stays_its_own(libraries: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("clash");
    let other = other(dir.path());
    let libraries: Vec<&str> =
        libraries.iter().map(|name| if *name == "OTHER" { &other } else { *name }).collect();
    let source = Path::new(HERE).join("tests/clash/main.c");
    compiled(Language::C, &[source], &program, &libraries);
    let output = run(&mut Command::new(&program));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all names are their owners'\n");
}

/// Returns the path of a file in the installed `lib` folder.
fn lib(name: &str) -> String {
    installed().join("lib").join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_programs_names_are_not_those_of_the_shared_library() {
    let rpath = format!("-Wl,-rpath,{}", lib(""));
    stays_its_own(&["-rdynamic", &lib("libuzram.so"), &rpath, "OTHER", "-ldl", "-lm"]);
}

#[test]
fn a_programs_names_are_not_those_of_the_static_library() {
    let archive = lib("libuzram.a");
    stays_its_own(&[&archive, "OTHER", "-ldl", "-lm"]);
    stays_its_own(&["OTHER", &archive, "-ldl", "-lm"]);
}

/// A fully static program is linked with the options in `uzram.pc`.
#[test]
fn a_static_program_is_linked_as_pkg_config_says() {
    let text = std::fs::read_to_string(lib("pkgconfig/uzram.pc")).unwrap();
    let private = text.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    let archive = lib("libuzram.a");
    let mut libraries = vec!["-static", "OTHER", &archive];
    libraries.extend(private.split(' '));
    stays_its_own(&libraries);
}

/// The libraries have no undefined symbol that another library could define by chance.
#[test]
fn nothing_is_asked_of_a_program() {
    let known = ["_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__"];
    let asked = |library: &str, options: &[&str]| -> Vec<String> {
        let output = run(Command::new("nm").args(options).arg(lib(library)));
        let text = String::from_utf8(output.stdout).unwrap();
        let names = text.lines().filter_map(|line| line.split_whitespace().last());
        names.map(str::to_owned).collect()
    };
    let mut names = asked("libuzram.so", &["-D", "--undefined-only"]);
    // A name with a version is defined by a library that libuzram.so needs.
    names.retain(|name| !name.contains('@') && !name.starts_with("uzram."));
    names.retain(|name| !known.contains(&name.as_str()));
    assert_eq!(names, [""; 0]);
    let mut names = asked("libuzram.a", &["--undefined-only"]);
    names.retain(|name| name.contains("ZSTD") || name.contains("LZ4") || name.contains("rust"));
    names.retain(|name| !name.starts_with("uzram."));
    assert_eq!(names, [""; 0]);
}
