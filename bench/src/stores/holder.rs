//! A store in a process of its own, so that the figures of a store contain no memory that another
//! allocator has kept.

use std::env;
use std::io::{self, BufWriter, Write};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::StoreKind;
use crate::Error;
use crate::contents::{Blobs, Contents};

/// The work that the process does with its store.
#[derive(Debug, Serialize, Deserialize)]
pub enum Work {
    /// Stores in every slot the blob with the slot's number.
    Fill,
    /// Frees these slots one after the other.
    Drop(Vec<u32>),
    /// Stores random blobs in random slots.
    Churn {
        /// The number of stores.
        operations: u64,
        /// The seed of the random choices.
        seed: u64,
    },
}

/// The memory that the store uses after it was purged.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Taken {
    /// The bytes of the blobs that it holds.
    pub stored: u64,
    /// All memory that the store counts, if it does.
    pub counted: Option<u64>,
    /// The growth of the process's resident and swapped memory.
    pub held: u64,
    /// The memory that the machine lost.
    pub machine: u64,
}

impl Taken {
    /// Returns the memory that figures use: the counted memory, or the memory of the process if the
    /// store counts none.
    pub fn judged(&self) -> u64 {
        self.counted.unwrap_or(self.held)
    }
}

/// Executes the pieces of work one after the other in a store of `blobs` in a process of its own.
/// Returns its memory after each piece.
pub fn measure(kind: StoreKind, blobs: &Blobs, script: &[Work]) -> Result<Vec<Taken>, Error> {
    let failed = |error: io::Error| refused(kind, error.to_string());
    let program = env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(["--store", &kind.argument()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // The process answers after it has read everything, so neither blocks the other.
    let sent = child.stdin.take().map_or(Ok(()), |pipe| send(blobs, script, pipe));
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(refused(kind, output.status.to_string()));
    }
    sent.map_err(failed)?;
    let taken = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    taken.map(|line| serde_json::from_slice(line).map_err(|error| failed(error.into()))).collect()
}

/// Sends the number of the blobs, their lengths, their bytes, and the script.
fn send(blobs: &Blobs, script: &[Work], pipe: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(pipe);
    out.write_all(&blobs.len().to_le_bytes())?;
    for nth in 0..blobs.len() {
        out.write_all(&(blobs.get(nth).len() as u32).to_le_bytes())?;
    }
    out.write_all(blobs.bytes())?;
    serde_json::to_writer(&mut out, script)?;
    out.flush()
}

/// Returns the error of a store's process that failed or returned a wrong answer.
pub(super) fn refused(kind: StoreKind, reason: String) -> Error {
    Error::ToolFailed {
        tool: "the process of a store",
        reason: format!("{}: {reason}", kind.name()),
        remedy: "see its message on standard error; where memory is short, give a smaller --limit",
    }
}
