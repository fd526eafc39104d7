//! Reasons why a program is not started, with the exit codes of a shell and of `env`.

use crate::error::{self, Error};
use crate::log::log;
use crate::text::escaped;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

/// The exit code for a program that exists but can't be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The exit code for a program that does not exist.
const NOT_FOUND: u8 = 127;

/// The reason why a program is not started.
#[derive(Debug)]
pub(super) enum Refusal {
    NotFound(String),
    NotExecutable(String),
    Other(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Other(error)
    }
}

impl Refusal {
    pub(super) fn not_found(program: &Path, why: impl Display) -> Self {
        let program = escaped(program);
        Refusal::NotFound(format!(
            "'{program}' can't be run: {why}; give the path of a program, or install it"
        ))
    }

    pub(super) fn not_executable(program: &Path, why: impl Display) -> Self {
        let program = escaped(program);
        Refusal::NotExecutable(format!(
            "'{program}' can't be run: {why}; give a program that this user may execute"
        ))
    }

    /// Returns the refusal of a script whose interpreter does not exist or can't be executed. The
    /// exit code is the one that `env` would return for the script itself.
    pub(super) fn of_interpreter(script: &Path, interpreter: &Path, error: &io::Error) -> Self {
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

    /// Returns the refusal for an error of the system at the start of a program.
    pub(super) fn of_start(program: &Path, error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Refusal::not_found(program, error),
            _ => Refusal::not_executable(program, error),
        }
    }

    /// Prints the message, and returns the exit code.
    pub(super) fn report(self) -> ExitCode {
        let (message, code) = match self {
            Refusal::Other(error) => return error::report(&error),
            Refusal::NotExecutable(message) => (message, NOT_EXECUTABLE),
            Refusal::NotFound(message) => (message, NOT_FOUND),
        };
        log!("{message}");
        ExitCode::from(code)
    }
}
