//! The errors of reading files. Each message is one line that states the object, the reason and the
//! remedy.

use std::path::Path;

/// The error of reading files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a directory is not as required.
    #[error("{0}")]
    Failed(String),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// Returns a path for printing, on one line and without control characters.
pub fn escaped(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}
