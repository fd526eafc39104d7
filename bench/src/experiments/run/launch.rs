//! A process that executes a program in the environment of a side: in a cgroup, or without rights.

use std::convert::Infallible;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};
use testkit::rights;

use crate::Error;

/// The instructions for the process: its cgroup, its rights and the program to execute.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The cgroup's file of members.
    pub(super) members: Option<PathBuf>,
    /// True if the program runs without any right.
    pub(super) is_confined: bool,
    pub(super) command: Vec<String>,
}

/// Executes the program of an order in place of this process.
pub fn launch(order: Order) -> Result<Infallible, Error> {
    let failed = |reason: String| Error::ToolFailed {
        tool: "the start of a program",
        reason,
        remedy: "see that its file is there, and may be executed by any user",
    };
    if let Some(members) = order.members {
        let own = std::process::id().to_string();
        fs::write(&members, own).map_err(Error::file("write to", &members, "run it as root"))?;
    }
    if order.is_confined {
        rights::give_up(&[]);
    }
    let Some((program, arguments)) = order.command.split_first() else {
        return Err(failed("no program is named".to_string()));
    };
    let refused = Command::new(program).args(arguments).exec();
    Err(failed(format!("{program}: {refused}")))
}
