//! A region in a separate process with a single thread, as in most programs. The experiment's own
//! process has a second thread, which waits for signals.

use std::io::{self, BufRead, Read};
use std::process::{Child, Stdio};

use serde::{Deserialize, Serialize};

use super::BACKENDS;
use super::bed::{Took, round};
use super::region;
use crate::Error;
use crate::method::{LZ4, Method, ZSTD};
use crate::own::{Pipes, Task, answer, failed};

/// The settings of a region.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Order {
    is_zstd: bool,
    block: usize,
    /// The index of the backend among the measured backends.
    backend: usize,
    bytes: usize,
}

/// A request to evict all of the memory and touch it again.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
    offsets: Vec<usize>,
    expected: u64,
}

/// A region that another process holds.
#[derive(Debug)]
pub(super) struct Held {
    child: Child,
    pipes: Option<Pipes>,
    pub(super) backend: String,
}

impl Held {
    /// Starts a process that holds `pages` in a region.
    pub(super) fn start(
        pages: &[u8],
        method: Method,
        block: usize,
        backend: usize,
    ) -> Result<Held, Error> {
        let is_zstd = method.codec == ZSTD.codec;
        let order = Order { is_zstd, block, backend, bytes: pages.len() };
        let mut command = Task::Region.command(&order)?;
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(failed)?;
        let pipes = Pipes::of(&mut child);
        let mut held = Held { child, pipes, backend: String::new() };
        held.pipes()?.send(pages)?;
        held.backend = held.pipes()?.answer()?;
        Ok(held)
    }

    fn pipes(&mut self) -> Result<&mut Pipes, Error> {
        self.pipes.as_mut().ok_or_else(|| failed("it has no pipes"))
    }

    /// Evicts all of the memory and touches it again at `offsets`, in the other process.
    pub(super) fn round(&mut self, offsets: &[usize], expected: u64) -> Result<Took, Error> {
        self.pipes()?.ask(&Round { offsets: offsets.to_vec(), expected })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The process exits because its input is closed.
        self.pipes = None;
        if let Err(error) = self.child.wait() {
            eprintln!("bench: {error}");
        }
    }
}

/// Holds a region until standard input is closed, in a process that was started for this task.
pub fn hold(order: Order) -> Result<(), Error> {
    let Order { is_zstd, block, backend, bytes } = order;
    let method = if is_zstd { ZSTD } else { LZ4 };
    let mut input = io::stdin().lock();
    let mut pages = vec![0; bytes];
    input.read_exact(&mut pages).map_err(failed)?;
    let region = region(&pages, method, block, BACKENDS[backend])?;
    drop(pages);
    answer(&region.stats().backend)?;
    for line in input.lines() {
        let order = line.map_err(failed)?;
        let Round { offsets, expected } = serde_json::from_str(&order).map_err(failed)?;
        answer(&round(&region, &offsets, expected)?)?;
    }
    Ok(())
}
