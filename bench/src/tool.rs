//! Programs of other projects, which create inputs or are rivals.

use std::env;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::Error;
use crate::undo::{apart, ended, whole};

const MESSAGE_MAX: usize = 400;

/// The remedy if the command or its host does not exist.
pub(crate) const BUILD: &str = "build them with make build";

/// Returns the path of uzram's command or host, which is built beside this program.
pub(crate) fn built(name: &str) -> PathBuf {
    env::current_exe().unwrap_or_default().with_file_name(name)
}

/// A program, its Debian package, and the remedy if the program fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) remedy: &'static str,
}

impl Tool {
    pub(crate) fn command(&self) -> Command {
        apart(self.name)
    }

    /// Converts an error in the start of the program.
    pub(crate) fn started<T>(&self, result: io::Result<T>) -> Result<T, Error> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::ToolMissing { tool: self.name, package: self.package }
            }
            _ => self.failed(error.to_string()),
        })
    }

    /// Runs `command`, which starts this program, until it exits or a signal ends the benchmark.
    pub(crate) fn run(&self, command: &mut Command) -> Result<Output, Error> {
        self.run_to(command, Stdio::piped())
    }

    /// Like `run`, with standard output redirected to `output`.
    pub(crate) fn run_to(&self, command: &mut Command, output: Stdio) -> Result<Output, Error> {
        command.stdout(output).stderr(Stdio::piped());
        self.succeeded(ended(command)?)
    }

    /// Like `run`, but returns the duration in seconds.
    pub(crate) fn seconds(&self, command: &mut Command) -> Result<f64, Error> {
        let begun = Instant::now();
        self.run(command)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Runs `command`, which starts this program, until it exits. A signal to this process does not
    /// end the command early. Commands that create or undo an object need this.
    pub(crate) fn run_whole(&self, command: &mut Command) -> Result<Output, Error> {
        self.succeeded(whole(command))
    }

    fn succeeded(&self, output: io::Result<Output>) -> Result<Output, Error> {
        let output = self.started(output)?;
        if output.status.success() {
            return Ok(output);
        }
        let messages = String::from_utf8_lossy(&output.stderr);
        // Keeps the end of the messages, which contains the reason.
        let skipped = messages.trim().chars().count().saturating_sub(MESSAGE_MAX);
        let end: String = messages.trim().chars().skip(skipped).collect();
        Err(self.failed(format!("{}, {end}", output.status)))
    }

    pub(crate) fn failed(&self, reason: String) -> Error {
        Error::ToolFailed { tool: self.name, reason, remedy: self.remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_failing_programs_are_told_apart() {
        let missing = Tool { name: "no-such-program", package: "none", remedy: "-" };
        assert!(matches!(missing.run(&mut missing.command()), Err(Error::ToolMissing { .. })));
        let shell = Tool { name: "sh", package: "dash", remedy: "try again" };
        let failed = shell
            .run(shell.command().args(["-c", "echo why >&2; exit 3"]))
            .unwrap_err()
            .to_string();
        assert!(
            failed.contains("why") && failed.contains('3') && failed.contains("try again"),
            "{failed}"
        );
    }
}
