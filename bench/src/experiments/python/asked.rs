//! A Python process that answers requests until it is dropped.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use testkit::cgroup::Group;

use super::place::Place;
use crate::Error;
use crate::undo::{Action, Undo, apart};

/// The process, which is killed on drop and when a signal ends the run.
#[derive(Debug)]
pub(super) struct Asked {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    _undo: Undo,
}

fn failed(reason: impl ToString) -> Error {
    Error::ToolFailed {
        tool: "a Python process",
        reason: reason.to_string(),
        remedy: "see its message on standard error; where memory is short, give a smaller --limit",
    }
}

impl Asked {
    /// Runs a script of `place`. If a cgroup is given, the script runs in it, and the cgroup is
    /// removed after it.
    pub(super) fn start(
        place: &Place,
        script: &str,
        arguments: &[String],
        group: Option<Group>,
    ) -> Result<Asked, Error> {
        let group = group.map(Arc::new);
        let ((orders, answers), _undo) = Undo::of(|| {
            let program = place.python().to_string_lossy().into_owned();
            let mut command = match &group {
                None => apart(&program),
                Some(group) => {
                    let mut shell = apart("sh");
                    shell.args(["-c", &group.enter(), "sh", &program]);
                    shell
                }
            };
            command.args(["-s", "-E"]).arg(place.script(script)).args(arguments);
            let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = spawned.map_err(failed)?;
            let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
                unreachable!("both were asked for")
            };
            let end: Action = Box::new(move || {
                // The error of a process that has already exited is ignored.
                let _gone = child.kill();
                let _status = child.wait();
                group.iter().for_each(|group| group.remove());
                Ok(())
            });
            Ok::<_, Error>(((orders, BufReader::new(answers)), end))
        })?;
        Ok(Asked { orders, answers, _undo })
    }

    /// Sends `order`, a list that begins with the name of a function of the script, and returns the
    /// answer.
    pub(super) fn ask<T: DeserializeOwned>(&mut self, order: impl Serialize) -> Result<T, Error> {
        let mut line = serde_json::to_string(&order).map_err(failed)?;
        line.push('\n');
        self.orders.write_all(line.as_bytes()).map_err(failed)?;
        line.clear();
        self.answers.read_line(&mut line).map_err(failed)?;
        if line.is_empty() {
            return Err(failed("it ended before it answered"));
        }
        serde_json::from_str(&line).map_err(|error| failed(format!("{error}: {line}")))
    }
}
