//! A process that executes a program in the environment of a side: in a cgroup, or without
//! privileges.

use std::convert::Infallible;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};
use testkit::rights;

use crate::Error;

/// The instructions for the process: its cgroup, its privileges and the program to execute.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The file to which the process writes its id in order to enter the cgroup.
    pub(super) members: Option<PathBuf>,
    /// Whether the program runs without privileges.
    pub(super) is_confined: bool,
    pub(super) command: Vec<String>,
}

/// Replaces the program of this process by the program of an order.
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
