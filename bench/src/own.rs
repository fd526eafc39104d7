//! Processes of this program, each of which does a task of an experiment. The arguments of the
//! process name the task, and the process prints its answers.
//!
//! ```text
//!   an experiment -> command -> `bench --task NAME --order JSON` -> the function of the task
//!                 -> Pipes::send, ask -> standard input -> answer -> standard output
//! ```

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command};

use clap::ValueEnum;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// The task of a process that an experiment starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Task {
    /// Exchange messages.
    Exchange,
    /// Execute a program.
    Launch,
    /// Hold a region of memory.
    Region,
    /// Serve a device.
    Serve,
}

impl Task {
    /// Returns the command of a process that does the task as `order` specifies.
    pub(crate) fn command(self, order: &impl Serialize) -> Result<Command, Error> {
        self.command_below(None, order)
    }

    /// Does the same as `command`. If there is a `watcher`, the command starts the watcher, which
    /// runs the process.
    pub(crate) fn command_below(
        self,
        watcher: Option<Command>,
        order: &impl Serialize,
    ) -> Result<Command, Error> {
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = match watcher {
            Some(mut watcher) => {
                watcher.arg(program);
                watcher
            }
            None => Command::new(program),
        };
        let name = self.to_possible_value().map_or_else(String::new, |of| of.get_name().to_owned());
        // The order consists of strings and numbers, so serialization can't fail.
        let order = serde_json::to_string(order).unwrap_or_default();
        command.args(["--task", &name, "--order", &order]);
        Ok(command)
    }
}

/// Parses the order in the arguments of this process.
///
/// # Errors
/// Fails if `text` is not an order of type `T`.
pub fn order<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|_| Error::Malformed {
        thing: "--order".into(),
        text: text.into(),
        expected: "what an experiment gives",
    })
}

/// Converts an error of a task's process, or an error in the start of the process.
pub(crate) fn failed(reason: impl Display) -> Error {
    Error::ToolFailed {
        tool: "a process of bench",
        reason: reason.to_string(),
        remedy: "see its message on standard error; where memory is short, give a smaller --limit",
    }
}

/// The pipes to a process that answers each line with a line of JSON.
#[derive(Debug)]
pub(crate) struct Pipes {
    orders: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Pipes {
    /// Returns the pipes of `child`, or `None` if its standard streams are not pipes.
    pub(crate) fn of(child: &mut Child) -> Option<Pipes> {
        let (orders, answers) = child.stdin.take().zip(child.stdout.take())?;
        Some(Pipes { orders: BufWriter::new(orders), answers: BufReader::new(answers) })
    }

    /// Sends `bytes`, which the process does not answer.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.orders.write_all(bytes).map_err(failed)
    }

    /// Sends a line with `order`, and returns the answer of the process.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, order: &impl Serialize) -> Result<T, Error> {
        let sent = serde_json::to_writer(&mut self.orders, order).map_err(io::Error::from);
        sent.and_then(|()| self.orders.write_all(b"\n")).map_err(failed)?;
        self.answer()
    }

    /// Returns the next answer.
    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        self.orders.flush().map_err(failed)?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(failed)?;
        serde_json::from_str(&line).map_err(failed)
    }
}

/// Prints an answer of this process.
pub(crate) fn answer(answer: &impl Serialize) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let written = serde_json::to_writer(&mut out, answer).map_err(io::Error::from);
    written.and_then(|()| writeln!(out)).and_then(|()| out.flush()).map_err(failed)
}
