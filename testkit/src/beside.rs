//! What lies beside a program.

use std::path::{Path, PathBuf};

/// Returns the folder of what a program's dev-dependencies are built to: cargo builds it with the
/// test.
pub fn dependencies(program: &Path) -> PathBuf {
    program.parent().unwrap().join("deps")
}
