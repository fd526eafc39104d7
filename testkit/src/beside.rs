//! What lies beside a program and that no crate can link: the library that `uzram run` loads, as
//! its functions named `read` and `write` would take the place of the C library's.

use std::fs;
use std::path::{Path, PathBuf};

const NAME: &str = "libuzram_preload.so";

/// Returns the folder of what a program's dev-dependencies are built to: cargo builds it with the
/// test.
pub fn dependencies(program: &Path) -> PathBuf {
    program.parent().unwrap().join("deps")
}

/// Returns the library beside this program, as it is now, of a dev-dependency on `uzram-preload`.
pub fn library(program: &Path) -> PathBuf {
    let dir = program.parent().unwrap();
    let (built, beside) = (dependencies(program).join(NAME), dir.join(NAME));
    // Several tests at once: what is there is whole at any time.
    let made =
        tempfile::Builder::new().prefix(NAME).make_in(dir, |path| fs::hard_link(&built, path));
    made.unwrap().into_temp_path().persist(&beside).unwrap();
    beside
}
