//! An installed copy of libuzram for programs, created once from the files that cargo built for
//! this test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the folder that contains `include` and `lib`.
pub fn installed() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libuzram");
        let program = std::env::current_exe().unwrap();
        let archive = program.parent().unwrap().join("libuzram_capi.a");
        let mut link = Command::new(Path::new(HERE).join("link.sh"));
        run(link.arg(archive).arg(&dir));
        dir
    })
}

/// Runs a command, which must succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// The language in which a program is compiled.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    C,
    Cpp,
}

/// Compiles sources to a program, with warnings as errors.
pub fn compiled(language: Language, sources: &[PathBuf], program: &Path, libraries: &[&str]) {
    let (compiler, standard, kind) = match language {
        Language::C => ("cc", "-std=c99", "c"),
        Language::Cpp => ("c++", "-std=c++17", "c++"),
    };
    let mut command = Command::new(compiler);
    command.args([standard, "-D_GNU_SOURCE", "-pedantic", "-Wall", "-Wextra", "-Werror", "-g"]);
    command.arg("-I").arg(installed().join("include")).args(["-x", kind]).args(sources);
    command.args(["-x", "none"]).args(libraries).args(["-lpthread", "-o"]).arg(program);
    run(&mut command);
}
