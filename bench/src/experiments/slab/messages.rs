//! Groups of senders and receivers: every sender sends messages from two caches to every receiver
//! of its group, and the receiver frees them. `perf bench sched messaging` does the same through
//! sockets, whose buffers come from caches of 512 and 256 bytes. Our threads cache as many objects
//! as the kernel does per processor.
//!
//! Scaled to two processors: 50 groups of 2 senders and 2 receivers as threads instead of 20 and 20
//! as processes, with 1000 loops as in `perf bench`.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use slab::{Layout, Tunables};

use super::{Request, figure};
use crate::Error;
use crate::objects::{Object, Objects, OurObjects};
use crate::pairing::{Plan, pair};
use crate::report::{Bound, Report};
use crate::threads::together;

pub(super) const GROUPS: usize = 50;
pub(super) const ENDS: usize = 2;
pub(super) const LOOPS: u64 = 1000;
/// The capacity of a receiver's queue.
const WAITING: usize = 64;
/// The bytes of a message that are written and read.
const TEXT: usize = 100;
const PAIRS: usize = 10;
/// The number of exchanges of a run, which last about a second. The time of a single exchange
/// depends on thread scheduling.
const EXCHANGES: usize = 10;
/// The time that moving the management data out of the slab saved in 2013, in percent.
const SAVED: f64 = 3.2;

const DATA: (usize, Tunables) = (512, Tunables { limit: 54, batchcount: 27 });
const HEAD: (usize, Tunables) = (256, Tunables { limit: 120, batchcount: 60 });

pub(crate) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let loops = request.operations.map_or(LOOPS, |operations| operations.clamp(1, LOOPS));
    // A trial with fewer loops needs one exchange only.
    let exchanges = if loops < LOOPS { 1 } else { EXCHANGES };
    for layout in [Layout::StackU32, Layout::Native] {
        let plan = Plan { pairs: PAIRS, ..Plan::default() };
        let run = |layout| {
            (0..exchanges).try_fold(0, |sum, _| Ok::<_, Error>(sum + exchange(layout, loops)?))
        };
        let paired = pair(plan, || run(layout), || run(Layout::LinkedBufctl))?;
        let who = [format!("{layout}"), format!("linked-bufctl beside {layout}")];
        for (who, of) in who.iter().zip([&paired.a, &paired.b]) {
            let each = |seconds: f64| seconds / exchanges as f64;
            report.add(figure(format!("messages/{who}: time"), each(of.median), "s"))?;
            let off = (of.max - of.median).max(of.median - of.min);
            report.add(figure(format!("messages/{who}: time, +- at most"), each(off), "s"))?;
        }
        let saved = (1.0 - paired.ratio.median) * 100.0;
        let saved = figure(format!("messages/{layout}: time saved"), saved, "%");
        report.add(saved.must(Bound::at_least(0.0)).rival("the source", SAVED))?;
    }
    Ok(())
}

/// A message: its descriptor and its text.
pub(super) struct Message {
    head: Object,
    data: Object,
}

pub(super) struct Caches {
    heads: OurObjects,
    data: OurObjects,
}

impl Caches {
    pub(super) fn new(layout: Layout) -> Result<Self, Error> {
        let make = |(size, tunables)| OurObjects::new(size, layout, Some(tunables));
        Ok(Caches { heads: make(HEAD)?, data: make(DATA)? })
    }

    pub(super) fn send(&self, text: u8) -> Result<Message, Error> {
        let (head, data) = (self.heads.alloc(TEXT, text)?, self.data.alloc(TEXT, text)?);
        Ok(Message { head, data })
    }

    pub(super) fn receive(&self, message: Message) -> Result<u64, Error> {
        let Message { head, data } = message;
        let seen = self.heads.look(&head) + self.data.look(&data);
        self.heads.free(head)?;
        self.data.free(data)?;
        Ok(seen)
    }
}

/// The task of one thread.
pub(super) enum End {
    Sends(Vec<SyncSender<Message>>),
    Receives(Receiver<Message>),
}

pub(super) fn ends() -> (Sender<End>, Receiver<End>) {
    let (put, take) = channel();
    for _ in 0..GROUPS {
        let (to, from): (Vec<_>, Vec<_>) = (0..ENDS).map(|_| sync_channel(WAITING)).unzip();
        // The channel is unbounded and its other end exists, so no send fails.
        for end in from.into_iter().map(End::Receives) {
            let _ = put.send(end);
        }
        for _ in 0..ENDS {
            let _ = put.send(End::Sends(to.clone()));
        }
    }
    (put, take)
}

/// Exchanges all messages through a pair of new caches. Returns a checksum of the received
/// messages.
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
                        // A receiver that failed reports the error itself.
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
