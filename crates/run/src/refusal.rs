//! The reasons why a program is not started or its figures can't be read. Each message is one line
//! that names the object, the reason and the remedy.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The reason why a program is not started, or its figures can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The program does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The program exists, but this user can't execute it.
    #[error("{0}")]
    NotExecutable(String),
    /// An option is invalid on every machine.
    #[error("{0}")]
    Usage(String),
    /// No host can run the program, or a file can't be read or written.
    #[error("{0}")]
    Failed(String),
    /// Signal handlers can't be installed.
    #[error("signal handlers can't be installed: {0}")]
    Handlers(io::Error),
}

/// Returns a path as one line of text without control characters.
pub(crate) fn escaped(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

impl Refusal {
    pub(crate) fn not_found(program: &Path, why: impl Display) -> Self {
        let program = escaped(program);
        Refusal::NotFound(format!(
            "'{program}' can't be run: {why}; give the path of a program, or install it"
        ))
    }

    pub(crate) fn not_executable(program: &Path, why: impl Display) -> Self {
        let program = escaped(program);
        Refusal::NotExecutable(format!(
            "'{program}' can't be run: {why}; give a program that this user may execute"
        ))
    }

    /// Returns the refusal of a script whose interpreter does not exist or can't be executed. For
    /// such a script, the command `env` returns the same exit code as `uzram run`.
    pub(crate) fn of_interpreter(script: &Path, interpreter: &Path, error: &io::Error) -> Self {
        let (refusal, remedy): (fn(String) -> Self, _) = match error.kind() {
            ErrorKind::NotFound => (Refusal::NotFound, "install it"),
            _ => (Refusal::NotExecutable, "have this user execute it"),
        };
        let (script, interpreter) = (escaped(script), escaped(interpreter));
        refusal(format!(
            "'{script}' can't be run: its interpreter '{interpreter}': {error}; {remedy}, or \
             correct the script's first line"
        ))
    }

    /// Returns the refusal for a system error at the start of a program.
    pub(crate) fn of_start(program: &Path, error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Refusal::not_found(program, error),
            _ => Refusal::not_executable(program, error),
        }
    }

    /// Returns the refusal for a failed operation on the file at `path`.
    pub(crate) fn of_file(path: &Path, what: &str, why: impl Display, remedy: &str) -> Self {
        Refusal::Failed(format!("'{}' {what}: {why}; {remedy}", escaped(path)))
    }

    /// Returns the refusal of a path that contains a comma. In the settings, the comma would end
    /// the path.
    pub(crate) fn comma(path: &Path) -> Self {
        Refusal::Usage(format!(
            "--stats-file: there is a comma in '{}'; give a path without, or set TMPDIR to one",
            escaped(path)
        ))
    }
}
