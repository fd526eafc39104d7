//! The cache misses of the same messages, in cachegrind's model of a processor's caches.
//!
//! The thread that runs next is drawn at random from a seed, and it runs until it has to wait. So
//! all layouts do the same work, and any difference is theirs. (With the system's scheduler, two
//! runs differ by more than the layouts do.) The first-level cache has 32 KiB. The last-level cache
//! has 1 MiB, less than the queued messages. A larger cache that holds everything would have misses
//! on first touches only, whatever the layout.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread;

use fastrand::Rng;
use slab::Layout;

use super::messages::{Caches, End, LOOPS, Message, ends};
use super::{NAME, Request, figure, median};
use crate::Error;
use crate::report::{Bound, Figure, Report};
use crate::undo::ended;

/// The divisor of the number of loops, because cachegrind is fifty times slower.
const SHARE: u64 = 4;
/// The number of schedules, each with its own seed.
const SCHEDULES: u64 = 3;
/// The first- and last-level caches: bytes, ways, and bytes of a line.
const CACHES: [&str; 2] = ["--D1=32768,8,64", "--LL=1048576,16,64"];
/// The misses that moving the management data out of the slab saved in 2013, in percent.
const SAVED: f64 = 3.5;
const WHICH: [&str; 2] = ["D1", "LL"];
const LAYOUTS: [Layout; 3] = [Layout::LinkedBufctl, Layout::StackU32, Layout::Native];

pub(crate) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let loops = request.operations.map_or(LOOPS, |operations| operations.clamp(1, LOOPS));
    // A trial with fewer loops needs one schedule only.
    let schedules = if loops < LOOPS { 1 } else { SCHEDULES };
    let loops = (loops / SHARE).max(1);
    let mut rounds = [const { [const { Vec::new() }; WHICH.len()] }; LAYOUTS.len()];
    for seed in (0..schedules).map(|nth| request.seed.wrapping_add(nth)) {
        for (layout, rows) in LAYOUTS.into_iter().zip(&mut rounds) {
            let Some(counts) = watched(layout, loops, seed)? else {
                let missing = Figure::missing(NAME, "messages/cache misses saved", "%");
                let absent = "valgrind is not installed, or gives no such counts";
                return report.add(missing.must(Bound::above(0.0)).rival_absent(absent));
            };
            rows.iter_mut().zip(counts).for_each(|(row, count)| row.push(count as f64));
        }
    }
    for (layout, rows) in LAYOUTS.iter().zip(&rounds) {
        for (which, row) in WHICH.iter().zip(rows) {
            report.add(figure(format!("messages/{layout}: {which} misses"), median(row), ""))?;
        }
    }
    for (layout, rows) in LAYOUTS.iter().zip(&rounds).skip(1) {
        for ((which, ours), before) in WHICH.iter().zip(rows).zip(&rounds[0]) {
            let saved = ours.iter().zip(before).map(|(ours, before)| (1.0 - ours / before) * 100.0);
            let saved = median(&saved.collect::<Vec<_>>());
            let saved = figure(format!("messages/{layout}: {which} misses saved"), saved, "%");
            report.add(saved.must(Bound::above(0.0)).rival("the source", SAVED))?;
        }
    }
    Ok(())
}

/// Returns the misses of the first-level data cache and of the last level, or `None` without
/// valgrind.
fn watched(layout: Layout, loops: u64, seed: u64) -> Result<Option<[u64; 2]>, Error> {
    let failed = |error: std::io::Error| Error::ToolFailed {
        tool: "valgrind",
        reason: error.to_string(),
        remedy: "install it anew",
    };
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]);
    // Without this option, a killed valgrind would leave its pipes behind.
    command.arg("--vgdb=no");
    command.args(CACHES).arg(program).args(["--messages", &format!("{layout} {loops} {seed}")]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let output = match ended(&mut command)? {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed)?,
    };
    let told = String::from_utf8_lossy(&output.stderr);
    let count = |what: &str| -> Option<u64> {
        let line = told.lines().find(|line| line.contains(what))?;
        let number = line.split_once(what)?.1.trim().split(' ').next()?.replace(',', "");
        number.parse().ok()
    };
    Ok(count("D1  misses:").zip(count("LL misses:")).map(|(first, last)| [first, last]))
}

/// Exchanges messages in turns, in a process that was started for it.
pub fn exchange_ordered(order: &str) -> Result<(), Error> {
    let malformed = || Error::Malformed {
        thing: "--messages".into(),
        text: order.into(),
        expected: "a layout, a number of loops and a seed",
    };
    let [layout, loops, seed] = order.split(' ').collect::<Vec<_>>()[..] else {
        return Err(malformed());
    };
    let number = |text: &str| text.parse().map_err(|_| malformed());
    exchange(layout.parse()?, number(loops)?, number(seed)?)
}

/// A thread's channels: one starts a turn, the other returns its outcome.
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
fn exchange(layout: Layout, loops: u64, seed: u64) -> Result<(), Error> {
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
                // If the other end is closed, an error has already occurred.
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

/// The work of a thread, turn by turn.
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

    /// Continues until the thread has to wait or is done.
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
