//! Files beside a program.

use std::path::{Path, PathBuf};

/// Returns the folder in which cargo builds the dev-dependencies of a test, beside `program`.
pub fn dependencies(program: &Path) -> PathBuf {
    program.parent().unwrap().join("deps")
}
