//! The cache misses of the exchange of messages, in cachegrind's model of a processor's caches.
//!
//! A generator with a fixed seed chooses the thread that runs next. The chosen thread runs until it
//! has to wait. So the threads do the same work with every layout, and only the layouts cause
//! differences. With the system's scheduler, two runs of one layout would differ more than two
//! layouts. The first-level cache has 32 KiB. The last-level cache has 1 MiB, less than the size of
//! the queued messages. If a cache could hold all messages, only first touches would miss, with
//! every layout.

use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use slab::Layout;

use super::messages::{Caches, End, Message, ends};
use crate::Error;
use crate::own::Task;
use crate::tool::Tool;

/// The number of loops is divided by `SHARE`, because cachegrind slows the program down fifty
/// times.
const SHARE: u64 = 4;
/// The number of schedules, each with its own seed.
const SCHEDULES: u64 = 3;
/// The first-level and last-level caches: the size in bytes, the associativity, and the line size.
const CACHES: [&str; 2] = ["--D1=32768,8,64", "--LL=1048576,16,64"];
const VALGRIND: Tool = Tool { name: "valgrind", package: "valgrind", remedy: "install it anew" };
pub(super) const WHICH: [&str; 2] = ["D1", "LL"];
pub(super) const LAYOUTS: [Layout; 3] = [Layout::LinkedBufctl, Layout::StackU32, Layout::Native];

/// The misses of each schedule, by layout and by cache (first-level data cache, last-level cache).
pub(super) type Misses = [[Vec<f64>; WHICH.len()]; LAYOUTS.len()];

/// The instructions for a process that exchanges messages. Only one of its threads runs at a time.
#[derive(Debug, Serialize, Deserialize)]
pub struct Exchange {
    layout: String,
    loops: u64,
    seed: u64,
}

/// Returns the cache misses of exchanges with `loops / SHARE` loops. A trial runs only one
/// schedule.
pub(super) fn counted(loops: u64, seed: u64, is_trial: bool) -> Result<Misses, Error> {
    let schedules = if is_trial { 1 } else { SCHEDULES };
    let loops = (loops / SHARE).max(1);
    let mut misses = Misses::default();
    for seed in (0..schedules).map(|nth| seed.wrapping_add(nth)) {
        for (layout, rows) in LAYOUTS.into_iter().zip(&mut misses) {
            let counts = watched(&Exchange { layout: layout.to_string(), loops, seed })?;
            rows.iter_mut().zip(counts).for_each(|(row, count)| row.push(count));
        }
    }
    Ok(misses)
}

/// Returns the misses of the first-level data cache and of the last-level cache.
fn watched(exchange: &Exchange) -> Result<[f64; WHICH.len()], Error> {
    let mut watcher = Command::new(VALGRIND.name);
    watcher.args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]);
    // Without this option, a killed valgrind would leave its pipes behind.
    watcher.arg("--vgdb=no").args(CACHES);
    let mut command = Task::Exchange.command_below(Some(watcher), exchange)?;
    let messages = VALGRIND.run(&mut command)?.stderr;
    let told = String::from_utf8_lossy(&messages);
    let count = |what: &str| -> Option<f64> {
        let line = told.lines().find_map(|line| line.split_once(what))?.1;
        line.trim().split(' ').next()?.replace(',', "").parse().ok()
    };
    let [first, last] = ["D1  misses:", "LL misses:"].map(count);
    let counts = first.zip(last).map(|(first, last)| [first, last]);
    counts.ok_or_else(|| VALGRIND.failed("it gives no counts of misses".to_owned()))
}

/// Exchanges messages in this process, which was started for this task. Only one thread runs at a
/// time.
pub fn exchange(exchange: Exchange) -> Result<(), Error> {
    let Exchange { layout, loops, seed } = exchange;
    exchanged(layout.parse()?, loops, seed)
}

/// The channels of a thread. `go` starts a turn, and `done` returns the outcome of the turn.
struct Turns {
    go: SyncSender<()>,
    done: Receiver<Result<Then, Error>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Waits,
    Ends,
}

/// Exchanges all messages through a pair of new caches, one thread at a time.
fn exchanged(layout: Layout, loops: u64, seed: u64) -> Result<(), Error> {
    let caches = Arc::new(Caches::new(layout)?);
    let (put, take) = ends();
    drop(put);
    let mut random = Rng::with_seed(seed);
    thread::scope(|scope| {
        let mut going = Vec::new();
        for end in take {
            let (go, goes) = sync_channel(0);
            let (tell, done) = channel();
            let caches = caches.clone();
            scope.spawn(move || {
                let mut part = Part::new(end, loops);
                // The main thread closes its end of the channel only after an error.
                goes.iter().take_while(|()| tell.send(part.turn(&caches)).is_ok()).for_each(drop);
            });
            going.push(Turns { go, done });
        }
        while !going.is_empty() {
            let nth = random.usize(..going.len());
            let Turns { go, done } = &going[nth];
            let _ = go.send(());
            let then = done.recv().map_err(|_| Error::Setup {
                reason: "a thread has ended".into(),
                remedy: "mend what its message on standard error names",
            })??;
            if then == Then::Ends {
                going.swap_remove(nth);
            }
        }
        Ok(())
    })
}

/// The work of a thread, which is divided into turns.
enum Part {
    Sends { to: Vec<SyncSender<Message>>, left: u64, waits: Option<Message> },
    Receives(Receiver<Message>),
}

impl Part {
    fn new(end: End, loops: u64) -> Self {
        match end {
            End::Sends(to) => Part::Sends { left: loops * to.len() as u64, to, waits: None },
            End::Receives(from) => Part::Receives(from),
        }
    }

    /// Continues the work until the thread has to wait or is done.
    fn turn(&mut self, caches: &Caches) -> Result<Then, Error> {
        match self {
            Part::Sends { to, left, waits } => {
                while *left > 0 {
                    let message = match waits.take() {
                        Some(message) => message,
                        None => caches.send(*left as u8)?,
                    };
                    let receiver = *left as usize % to.len();
                    if let Err(TrySendError::Full(message)) = to[receiver].try_send(message) {
                        *waits = Some(message);
                        return Ok(Then::Waits);
                    }
                    *left -= 1;
                }
                to.clear();
                Ok(Then::Ends)
            }
            Part::Receives(from) => loop {
                match from.try_recv() {
                    Ok(message) => drop(caches.receive(message)?),
                    Err(TryRecvError::Empty) => return Ok(Then::Waits),
                    Err(TryRecvError::Disconnected) => return Ok(Then::Ends),
                }
            },
        }
    }
}
