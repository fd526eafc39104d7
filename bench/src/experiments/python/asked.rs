//! A Python process that lives as long as it is asked something.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use testkit::cgroup::Group;

use super::place::Place;
use crate::Error;
use crate::undo::{Action, Undo, apart};

/// Ends with this, and when a signal ends the run.
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
    /// Runs a script of the place; in a cgroup, if one is given, which is removed after it.
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
                // Where it has ended already, that is all that was wanted.
                let _gone = child.kill();
                let _status = child.wait();
                group.iter().for_each(|group| group.remove());
                Ok(())
            });
            Ok::<_, Error>(((orders, BufReader::new(answers)), end))
        })?;
        Ok(Asked { orders, answers, _undo })
    }

    /// Asks for a function of the script, named first of a list, and returns its answer.
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
