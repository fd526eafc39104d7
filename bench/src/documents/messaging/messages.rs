//! Groups of senders and receivers. Every sender sends messages to every receiver of its group, and
//! the receiver frees them. Each message has an object from each of two caches. `perf bench sched
//! messaging` sends messages through sockets. A socket buffer has objects from two caches, of 512
//! and 256 bytes. A thread of this program caches as many objects as the kernel caches for a
//! processor.
//!
//! The work is scaled to two processors. Each of the 50 groups has 2 senders and 2 receivers, which
//! are threads. In `perf bench`, a group has 20 senders and 20 receivers, which are processes. In
//! this experiment and in `perf bench`, each sender sends 1000 messages to each receiver.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Instant;

use slab::{Layout, Tunables};

use super::objects::{Object, Objects};
use crate::Error;
use crate::threads::together;
use crate::turns::in_turns;

pub(super) const GROUPS: usize = 50;
pub(super) const ENDS: usize = 2;
/// The capacity of a receiver's queue in messages.
const WAITING: usize = 64;
/// The number of bytes that are written and read in each object of a message.
const TEXT: usize = 100;
const PAIRS: u64 = 10;
/// The number of exchanges in a run. Together they last about a second. A single exchange would be
/// too short, because its time depends on thread scheduling.
const EXCHANGES: usize = 10;

const DATA: (usize, Tunables) = (512, Tunables { limit: 54, batchcount: 27 });
const HEAD: (usize, Tunables) = (256, Tunables { limit: 120, batchcount: 60 });

/// Returns the average seconds of an exchange in each run, for both runs of each pair. One run of a
/// pair uses `layout`; the other uses the layout of slabs before Linux changed it in 2013. A trial
/// makes only one exchange in each run.
pub(super) fn times(layout: Layout, loops: u64, is_trial: bool) -> Result<Vec<Vec<f64>>, Error> {
    let exchanges = if is_trial { 1 } else { EXCHANGES };
    let mut expected = None;
    in_turns(2, PAIRS, |side| {
        let layout = [layout, Layout::LinkedBufctl][side];
        let begun = Instant::now();
        let sum =
            (0..exchanges).try_fold(0, |sum, _| Ok::<_, Error>(sum + exchange(layout, loops)?))?;
        let seconds = begun.elapsed().as_secs_f64() / exchanges as f64;
        Error::answer('B', *expected.get_or_insert(sum), sum)?;
        Ok(seconds)
    })
}

/// A message, which consists of a descriptor and a text.
pub(super) struct Message {
    head: Object,
    data: Object,
}

pub(super) struct Caches {
    heads: Objects,
    data: Objects,
}

impl Caches {
    pub(super) fn new(layout: Layout) -> Result<Self, Error> {
        let make = |(size, tunables)| Objects::new(size, layout, tunables);
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
        // The channel is unbounded and its receiver exists, so no send fails.
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
                        // The send fails only if the receiver has failed. The receiver reports its
                        // own error.
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
