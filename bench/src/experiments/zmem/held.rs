//! A region in a process of its own, in which a single thread uses memory, as in most programs.
//! This process has another thread, which waits for signals.

use std::env;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

use super::BACKENDS;
use super::bed::{Took, round};
use super::region;
use crate::Error;
use crate::experiments::blocks::{LZ4, Method, ZSTD};

/// The settings of a region.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Order {
    is_zstd: bool,
    block: usize,
    /// The index among the measured backends.
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
    orders: Option<BufWriter<ChildStdin>>,
    answers: BufReader<ChildStdout>,
    pub(super) backend: String,
}

fn failed(reason: impl ToString) -> Error {
    Error::ToolFailed {
        tool: "the process of a region",
        reason: reason.to_string(),
        remedy: "see its message on standard error; where memory is short, give a smaller --limit",
    }
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
        let program = env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args(["--region", &serde_json::to_string(&order).map_err(failed)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for")
        };
        let (orders, answers) = (Some(BufWriter::new(orders)), BufReader::new(answers));
        let mut held = Held { child, orders, answers, backend: String::new() };
        held.send(|orders| orders.write_all(pages))?;
        held.backend = held.answer()?;
        Ok(held)
    }

    /// Evicts all of the memory and touches it again at `offsets`, in the other process.
    pub(super) fn round(&mut self, offsets: &[usize], expected: u64) -> Result<Took, Error> {
        let round = Round { offsets: offsets.to_vec(), expected };
        self.send(|orders| {
            serde_json::to_writer(&mut *orders, &round)?;
            orders.write_all(b"\n")
        })?;
        self.answer()
    }

    fn send(
        &mut self,
        write: impl FnOnce(&mut BufWriter<ChildStdin>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let Some(orders) = &mut self.orders else { unreachable!("it is there until the drop") };
        write(orders).and_then(|()| orders.flush()).map_err(failed)
    }

    fn answer<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T, Error> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(failed)?;
        serde_json::from_str(&line).map_err(failed)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The process exits because its input is closed.
        self.orders = None;
        if let Err(error) = self.child.wait() {
            eprintln!("bench: {error}");
        }
    }
}

/// Holds a region in a process that was started for it, until its input is closed.
pub fn hold(order: &str) -> Result<(), Error> {
    let malformed = |_| Error::Malformed {
        thing: "--region".into(),
        text: order.into(),
        expected: "what an experiment gives",
    };
    let Order { is_zstd, block, backend, bytes } =
        serde_json::from_str(order).map_err(malformed)?;
    let method = if is_zstd { ZSTD } else { LZ4 };
    let (mut input, mut out) = (io::stdin().lock(), io::stdout().lock());
    let mut pages = vec![0; bytes];
    input.read_exact(&mut pages).map_err(failed)?;
    let region = region(&pages, method, block, BACKENDS[backend])?;
    drop(pages);
    let mut answer = |answer: String| writeln!(out, "{answer}").and_then(|()| out.flush());
    let backend = serde_json::to_string(region.stats().backend).map_err(failed)?;
    answer(backend).map_err(failed)?;
    for line in input.lines() {
        let order = line.map_err(failed)?;
        let Round { offsets, expected } = serde_json::from_str(&order).map_err(failed)?;
        let took = round(&region, &offsets, expected)?;
        answer(serde_json::to_string(&took).map_err(failed)?).map_err(failed)?;
    }
    Ok(())
}
