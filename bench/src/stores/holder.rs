//! A store in a process of its own: allocators do not mix there, and what one leaves behind is not
//! counted for the next.

use std::env;
use std::io::{self, BufWriter, Write};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::StoreKind;
use crate::Error;
use crate::contents::{Blobs, Contents};

/// What the process is told to do with its store.
#[derive(Debug, Serialize, Deserialize)]
pub enum Work {
    /// Every slot takes the blob of its own number.
    Fill,
    /// These slots are dropped, one after the other.
    Drop(Vec<u32>),
    /// Any blob is written to any slot, so often.
    Churn {
        /// How often.
        operations: u64,
        /// What is drawn by chance is drawn from it.
        seed: u64,
    },
}

/// Memory that the store takes after it was purged.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Taken {
    /// Bytes of the blobs it holds.
    pub stored: u64,
    /// All that the store counts, where it does.
    pub counted: Option<u64>,
    /// Growth of the process's resident and swapped memory.
    pub held: u64,
    /// What the machine has less.
    pub machine: u64,
}

impl Taken {
    /// What it is judged by: what is counted where it is, or else what the process holds.
    pub fn judged(&self) -> u64 {
        self.counted.unwrap_or(self.held)
    }
}

/// Has a store of `blobs` in a process of its own do one piece of work after the other; what it
/// takes after each.
pub fn measure(kind: StoreKind, blobs: &Blobs, script: &[Work]) -> Result<Vec<Taken>, Error> {
    let failed = |error: io::Error| refused(kind, error.to_string());
    let program = env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(["--store", &kind.argument()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // It answers when it has heard all, so neither waits for the other.
    let sent = child.stdin.take().map_or(Ok(()), |pipe| send(blobs, script, pipe));
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(refused(kind, output.status.to_string()));
    }
    sent.map_err(failed)?;
    let taken = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    taken.map(|line| serde_json::from_slice(line).map_err(|error| failed(error.into()))).collect()
}

/// How many blobs, their lengths, their bytes, and the script.
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

/// The store's process, or what was expected of it, failed.
pub(super) fn refused(kind: StoreKind, reason: String) -> Error {
    Error::ToolFailed {
        tool: "the process of a store",
        reason: format!("{}: {reason}", kind.name()),
        remedy: "see its message on standard error; where memory is short, give a smaller --limit",
    }
}
