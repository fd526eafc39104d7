//! A program in C, which is also valid C++, uses the whole library. The program is linked to the
//! shared library and to the static library, and runs under valgrind if valgrind is installed.

use crate::support::{HERE, Language, compiled, installed, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library to which a program is linked.
#[derive(Clone, Copy, Debug)]
enum Library {
    Shared,
    Static,
}

fn sources() -> Vec<PathBuf> {
    let dir = Path::new(HERE).join("tests/c");
    let all = dir.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<_> = all.filter(|path| path.extension().unwrap() == "c").collect();
    sources.sort();
    assert_eq!(sources.len(), 7, "{sources:?}");
    sources
}

/// Builds the program in `dir`.
fn built(dir: &Path, language: Language, library: Library) -> PathBuf {
    let program = dir.join("conformance");
    let lib = installed().join("lib");
    let lib = lib.to_str().unwrap();
    let (search, rpath, archive) =
        (format!("-L{lib}"), format!("-Wl,-rpath,{lib}"), format!("{lib}/libuzram.a"));
    let libraries: &[&str] = match library {
        Library::Shared => &[&search, &rpath, "-luzram"],
        Library::Static => &[&archive, "-lgcc_s", "-ldl", "-lm"],
    };
    compiled(language, &sources(), &program, libraries);
    program
}

fn conforms(language: Language, library: Library) {
    let dir = tempfile::tempdir().unwrap();
    let program = built(dir.path(), language, library);
    let output = run(Command::new(&program).arg(dir.path()));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all is as uzram.h says\n");
}

#[test]
fn a_program_in_c_with_the_shared_library() {
    conforms(Language::C, Library::Shared);
}

#[test]
fn a_program_in_cpp_with_the_static_library() {
    conforms(Language::Cpp, Library::Static);
}

/// Runs without regions, because valgrind would deliver their faults one by one. Runs without child
/// processes, because valgrind would report memory of the parent's threads as lost in a child.
#[test]
fn a_program_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("left out: there is no valgrind; install it");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = built(dir.path(), Language::C, Library::Shared);
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
    valgrind.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
    run(valgrind.arg(&program).arg(dir.path()).arg("--single"));
}

/// The folder that `link.sh` creates can be used in its original place, and after a move.
#[test]
fn a_program_is_built_as_pkg_config_says() {
    let dir = tempfile::tempdir().unwrap();
    let (moved, program) = (dir.path().join("moved"), dir.path().join("program"));
    run(Command::new("cp").arg("-a").arg(installed()).arg(&moved));
    let text = std::fs::read_to_string(moved.join("lib/pkgconfig/uzram.pc")).unwrap();
    let version = format!("Version: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "the header has another version than the package: {text}");
    assert!(!text.contains('@') && !text.contains(installed().to_str().unwrap()), "{text}");

    let mut asks = Command::new("pkg-config");
    asks.args(["--cflags", "--libs", "uzram"]).env_remove("PKG_CONFIG_SYSROOT_DIR");
    let flags = run(asks.env("PKG_CONFIG_LIBDIR", moved.join("lib/pkgconfig"))).stdout;
    let flags = String::from_utf8(flags).unwrap();
    let source = dir.path().join("program.c");
    std::fs::write(
        &source,
        "#include <uzram.h>\nint main(void) { return uzram_version() == 0; }\n",
    )
    .unwrap();
    run(Command::new("cc").arg("-o").arg(&program).arg(&source).args(flags.split_whitespace()));
    run(Command::new(&program).env("LD_LIBRARY_PATH", moved.join("lib")));
}
