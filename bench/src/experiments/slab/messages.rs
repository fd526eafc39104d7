//! Groups of senders and receivers: every sender sends to every receiver of its group messages that it takes from two
//! caches, and the receiver frees them. What `perf bench sched messaging` does through sockets, whose buffers come from
//! caches of 512 and 256 bytes; their magazines are as the kernel's.
//!
//! Scaled to two processors: 50 groups of 2 and 2 threads instead of 20 and 20 processes, 1000 loops as there.

use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use slab::{Layout, Tunables};

use super::{NAME, Request, figure, median};
use crate::Error;
use crate::objects::{Object, Objects, OurObjects};
use crate::pairing::{Plan, pair};
use crate::report::{Bound, Figure, Report};
use crate::threads::together;

const GROUPS: usize = 50;
const ENDS: usize = 2;
const LOOPS: u64 = 1000;
/// Under cachegrind, which takes fifty times as long.
const LOOPS_WATCHED: u64 = 100;
/// Runs of each layout there.
const WATCHED: usize = 5;
/// Messages that wait for a receiver.
const WAITING: usize = 64;
/// Bytes of a message that are written and read.
const TEXT: usize = 100;
const PAIRS: usize = 10;
/// What leaving the slab saved in 2013, in percent: cache misses, time.
const SAVED: [f64; 2] = [3.5, 3.2];

const DATA: (usize, Tunables) = (512, Tunables { limit: 54, batchcount: 27 });
const HEAD: (usize, Tunables) = (256, Tunables { limit: 120, batchcount: 60 });

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let loops = request.operations.map_or(LOOPS, |operations| operations.clamp(1, LOOPS));
    for layout in [Layout::StackU32, Layout::Native] {
        let plan = Plan { pairs: PAIRS, ..Plan::default() };
        let paired =
            pair(plan, || exchange(layout, loops), || exchange(Layout::LinkedBufctl, loops))?;
        let [ours, theirs] = [paired.a.median, paired.b.median];
        report.add(figure(format!("messages/{layout}: time"), ours, "s"))?;
        report.add(figure(format!("messages/linked-bufctl beside {layout}: time"), theirs, "s"))?;
        let saved = (1.0 - paired.ratio.median) * 100.0;
        let saved = figure(format!("messages/{layout}: time saved"), saved, "%");
        report.add(saved.must(Bound::at_least(0.0)).rival("the source", SAVED[1]))?;
    }
    misses(loops.min(LOOPS_WATCHED), report)
}

/// What cachegrind's model of the processor's caches makes of it.
fn misses(loops: u64, report: &mut Report<'_>) -> Result<(), Error> {
    const WHICH: [&str; 2] = ["D1", "LL"];
    let layouts = [Layout::LinkedBufctl, Layout::StackU32, Layout::Native];
    let mut rounds = [const { [const { Vec::new() }; WHICH.len()] }; 3];
    // In turns, as scheduling differs from run to run.
    for nth in 0..WATCHED * layouts.len() {
        let Some(counts) = watched(layouts[nth % layouts.len()], loops)? else {
            let missing = Figure::missing(NAME, "messages/cache misses saved", "%");
            let absent = "valgrind is not installed, or gives no such counts";
            return report.add(missing.must(Bound::above(0.0)).rival_absent(absent));
        };
        let rows = &mut rounds[nth % layouts.len()];
        rows.iter_mut().zip(counts).for_each(|(row, count)| row.push(count as f64));
    }
    let counts = rounds.map(|rows| rows.map(|row| median(&row)));
    for (layout, counts) in layouts.iter().zip(counts) {
        for (which, count) in WHICH.iter().zip(counts) {
            report.add(figure(format!("messages/{layout}: {which} misses"), count, ""))?;
        }
    }
    for (layout, after) in layouts.iter().zip(counts).skip(1) {
        for ((which, ours), before) in WHICH.iter().zip(after).zip(counts[0]) {
            let saved = (1.0 - ours / before) * 100.0;
            let saved = figure(format!("messages/{layout}: {which} misses saved"), saved, "%");
            let saved = saved.rival("the source", SAVED[0]);
            // The last level holds all there is: it misses what is touched for the first time, as scheduling has it.
            let judged = *which == "D1";
            report.add(if judged { saved.must(Bound::above(0.0)) } else { saved })?;
        }
    }
    Ok(())
}

/// Misses of the first-level data cache and of the last level; none without valgrind.
fn watched(layout: Layout, loops: u64) -> Result<Option<[u64; 2]>, Error> {
    let failed = |error: std::io::Error| Error::ToolFailed {
        tool: "valgrind",
        reason: error.to_string(),
        remedy: "install it anew",
    };
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]);
    command.arg(program).args(["--messages", &format!("{layout} {loops}")]);
    let output = match command.output() {
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

/// A message: what describes it, and what it says.
struct Message {
    head: Object,
    data: Object,
}

struct Caches {
    heads: OurObjects,
    data: OurObjects,
}

impl Caches {
    fn new(layout: Layout) -> Result<Self, Error> {
        let make = |(size, tunables)| OurObjects::new(size, layout, Some(tunables));
        Ok(Caches { heads: make(HEAD)?, data: make(DATA)? })
    }

    fn send(&self, text: u8) -> Result<Message, Error> {
        let (mut head, mut data) = (self.heads.alloc()?, self.data.alloc()?);
        head.fill(TEXT, text);
        data.fill(TEXT, text);
        Ok(Message { head, data })
    }

    fn receive(&self, message: Message) -> Result<u64, Error> {
        let Message { head, data } = message;
        let seen = head.look(TEXT) + data.look(TEXT);
        self.heads.free(head)?;
        self.data.free(data)?;
        Ok(seen)
    }
}

/// One thread's part.
enum End {
    Sends(Vec<SyncSender<Message>>),
    Receives(Receiver<Message>),
}

fn ends() -> (Sender<End>, Receiver<End>) {
    let (put, take) = channel();
    for _ in 0..GROUPS {
        let (to, from): (Vec<_>, Vec<_>) = (0..ENDS).map(|_| sync_channel(WAITING)).unzip();
        // The channel has no bound and its other end is here: nothing is refused.
        for end in from.into_iter().map(End::Receives) {
            let _ = put.send(end);
        }
        for _ in 0..ENDS {
            let _ = put.send(End::Sends(to.clone()));
        }
    }
    (put, take)
}

/// Exchanges messages, in a process that was started for it.
pub fn exchange_ordered(order: &str) -> Result<(), Error> {
    let malformed = || Error::Malformed {
        thing: "--messages".into(),
        text: order.into(),
        expected: "a layout and a number of loops",
    };
    let (layout, loops) = order.split_once(' ').ok_or_else(malformed)?;
    exchange(layout.parse()?, loops.parse().map_err(|_| malformed())?).map(|_| ())
}

/// All messages through a pair of new caches; the sum of what was received.
fn exchange(layout: Layout, loops: u64) -> Result<u64, Error> {
    let caches = Arc::new(Caches::new(layout)?);
    let (put, take) = ends();
    drop(put);
    let take = std::sync::Mutex::new(take);
    let done = together(GROUPS * ENDS * 2, |_| {
        let end = take.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv();
        match end {
            Ok(End::Sends(to)) => {
                for nth in 0..loops {
                    for receiver in &to {
                        // A receiver that failed tells of it itself.
                        let _ = receiver.send(caches.send(nth as u8)?);
                    }
                }
                Ok(0)
            }
            Ok(End::Receives(from)) => {
                from.iter().try_fold(0, |sum, message| Ok(sum + caches.receive(message)?))
            }
            Err(_) => Ok(0),
        }
    })?;
    Ok(done.answers.iter().sum())
}
