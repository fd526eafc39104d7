//! Why a program is not started, with the exit codes of a shell and of `env`.

use crate::error::{self, Error};
use crate::log::log;
use measure::text::escaped;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

/// It is there, and can't be executed.
const NOT_EXECUTABLE: u8 = 126;
/// It is not there.
const NOT_FOUND: u8 = 127;

/// See the module.
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

    /// A script's interpreter is not there, or can't be executed. `env` ends with the same code as
    /// if it were the script.
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

    /// The system refused to start it.
    pub(super) fn of_start(program: &Path, error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Refusal::not_found(program, error),
            _ => Refusal::not_executable(program, error),
        }
    }

    /// Prints it; the code to end with comes back.
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
