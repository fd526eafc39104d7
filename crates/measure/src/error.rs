//! The errors of reading files. Each message is one line that names the object, the reason and the
//! remedy.

use std::path::Path;

/// An error of reading files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a directory can't be used. The text is the message for the user.
    #[error("{0}")]
    Failed(String),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// Returns a path as one line of text without control characters.
pub fn escaped(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}
