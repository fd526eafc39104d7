//! Files beside a program.

use std::path::{Path, PathBuf};

/// Returns the folder of a program's dev-dependencies: cargo builds them with the test.
pub fn dependencies(program: &Path) -> PathBuf {
    program.parent().unwrap().join("deps")
}
