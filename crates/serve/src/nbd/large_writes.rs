//! Memory for the payloads of long writes. A write is applied only after its payload was received
//! completely. All connections share this memory and wait for it in turn, so its size does not
//! depend on the number of clients.
//!
//! The buffer of a finished write is kept for later writes of the same length, because the first
//! touch of new memory would take longer than the receipt of the payload. The spare buffers count
//! towards the limit of this memory. The spare buffers are released when no long write has ended
//! for a second. If the address space of the process is limited, no spare buffers are kept.

use super::buffer::Buffer;
use crate::policy::{LARGE_BYTES_PER_SECOND, LARGE_GRACE, SPARE_WITHIN};
use rustix_futex_sync::{Condvar, Mutex};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use zram::room;

/// The memory for all long writes.
#[derive(Debug)]
pub(crate) struct LargeWrites {
    most: usize,
    state: Mutex<State>,
    freed: Condvar,
    begun: Instant,
    /// The time, in milliseconds after `begun`, at which the last long write ended. The value is
    /// `NEVER` if no spare buffers exist.
    spared: AtomicU64,
}

const NEVER: u64 = u64::MAX;

#[derive(Debug, Default)]
struct State {
    /// The total size, in bytes, of the buffers that are in use or being released.
    used: usize,
    spares: Vec<Buffer>,
    /// The number of the next ticket to be issued, and the number of the next ticket to be served.
    /// Writes get memory in the order of their tickets. So a long write does not starve while
    /// shorter writes would fit.
    next: u64,
    served: u64,
}

/// The payload of a long write. A drop makes the payload's memory available to other writes.
#[derive(Debug)]
pub(crate) struct LargeWrite<'l> {
    writes: &'l LargeWrites,
    since: Instant,
    len: usize,
    /// The buffer of the payload, or `None` after a failure.
    buffer: Option<Buffer>,
}

impl State {
    fn spare_bytes(&self) -> usize {
        self.spares.iter().map(|buffer| buffer.len()).sum()
    }

    fn take_spare(&mut self, len: usize) -> Option<Buffer> {
        let at = self.spares.iter().position(|buffer| buffer.len() == len)?;
        Some(self.spares.swap_remove(at))
    }
}

impl LargeWrites {
    /// Creates a pool of `most` bytes of memory for long writes.
    pub(crate) fn new(most: u32) -> Self {
        LargeWrites {
            most: most as usize,
            state: Mutex::default(),
            freed: Condvar::new(),
            begun: Instant::now(),
            spared: NEVER.into(),
        }
    }

    /// Returns whether a write of `len` bytes has held its memory for too long while other writes
    /// wait.
    fn is_late(&self, since: Instant, len: usize) -> bool {
        let grace = LARGE_GRACE + Duration::from_secs(len as u64 / LARGE_BYTES_PER_SECOND);
        let is_waited_for = || {
            let state = self.state.lock();
            state.next > state.served
        };
        since.elapsed() > grace && is_waited_for()
    }

    /// Waits for the write's turn and for enough free memory. Returns a buffer for a payload of
    /// `len` bytes.
    pub(crate) fn get(&self, len: usize) -> io::Result<LargeWrite<'_>> {
        if len > self.most {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mut state = self.state.lock();
        let turn = state.next;
        state.next += 1;
        let buffer = loop {
            if state.served != turn || state.used + len > self.most {
                state = self.freed.wait(state);
            } else if let Some(buffer) = state.take_spare(len) {
                break Some(buffer);
            } else if state.used + state.spare_bytes() + len > self.most {
                drop(state);
                self.release();
                state = self.state.lock();
            } else {
                break None;
            }
        };
        state.served += 1;
        state.used += len;
        drop(state);
        // The remaining free memory may suffice for the write with the next ticket.
        self.freed.notify_all();
        let mut write = LargeWrite { writes: self, since: Instant::now(), len, buffer };
        if write.buffer.is_none() {
            if !room::is_left(len) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            write.buffer = Some(Buffer::new(len)?);
        }
        Ok(write)
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Releases spare buffers if no long write has ended for a while.
    pub(crate) fn release_idle(&self) {
        let spared = self.spared.load(Relaxed);
        if spared != NEVER && self.now() >= spared + SPARE_WITHIN.as_millis() as u64 {
            self.release();
        }
    }

    /// Releases all spare buffers. A spare buffer counts as used until it is unmapped.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        let spares = std::mem::take(&mut state.spares);
        let bytes: usize = spares.iter().map(|buffer| buffer.len()).sum();
        state.used += bytes;
        self.spared.store(NEVER, Relaxed);
        drop(state);
        drop(spares);
        self.state.lock().used -= bytes;
        self.freed.notify_all();
    }
}

impl LargeWrite<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }

    /// Calls `fill` to receive the payload. The argument of `fill` is a function that returns
    /// whether the write has held its memory for too long.
    pub(crate) fn fill<E>(
        &mut self,
        fill: impl FnOnce(&mut [u8], &dyn Fn() -> bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let (writes, since, len) = (self.writes, self.since, self.len);
        let bytes = self.buffer.as_deref_mut().unwrap_or_default();
        fill(bytes, &|| writes.is_late(since, len))
    }
}

impl Drop for LargeWrite<'_> {
    fn drop(&mut self) {
        let spare = self.buffer.take().filter(|_| room::left().is_none());
        let mut state = self.writes.state.lock();
        state.used -= self.len;
        if let Some(buffer) = spare {
            state.spares.push(buffer);
            self.writes.spared.store(self.writes.now(), Relaxed);
        }
        drop(state);
        self.writes.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const MIB: usize = 1 << 20;

    /// Returns the numbers of bytes in used and in spare buffers.
    fn held(writes: &LargeWrites) -> (usize, usize) {
        let state = writes.state.lock();
        assert!(state.used + state.spare_bytes() <= writes.most);
        (state.used, state.spare_bytes())
    }

    #[test]
    fn buffers_are_used_again_for_the_same_length() {
        let writes = LargeWrites::new(8 << 20);
        let first = writes.get(MIB).unwrap();
        let at = first.bytes().as_ptr();
        drop(first);
        assert_eq!(held(&writes), (0, MIB));
        let other = writes.get(MIB - 1).unwrap();
        assert!(other.bytes().as_ptr() != at && other.bytes().len() == MIB - 1);
        assert_eq!(held(&writes), (MIB - 1, MIB));
        let same = writes.get(MIB).unwrap();
        assert_eq!((same.bytes().as_ptr(), held(&writes)), (at, (2 * MIB - 1, 0)));
        drop((other, same));
        assert_eq!(held(&writes), (0, 2 * MIB - 1));
        // A write that takes the whole memory leaves no memory for spare buffers.
        let all = writes.get(8 * MIB).unwrap();
        assert_eq!(held(&writes), (8 * MIB, 0));
        drop(all);
        assert_eq!(held(&writes), (0, 8 * MIB));
    }

    #[test]
    fn spare_buffers_are_released() {
        let writes = LargeWrites::new(8 << 20);
        drop(writes.get(MIB).unwrap());
        writes.spared.fetch_add(1000, Relaxed);
        writes.release_idle();
        assert_eq!(held(&writes), (0, MIB));
        writes.spared.store(0, Relaxed);
        thread::sleep(SPARE_WITHIN);
        writes.release_idle();
        assert_eq!((held(&writes), writes.spared.load(Relaxed)), ((0, 0), NEVER));
        drop(writes.get(MIB).unwrap());
        writes.release();
        assert_eq!(held(&writes), (0, 0));
    }

    #[test]
    fn writes_of_many_lengths_take_turns() {
        let writes = LargeWrites::new(4 << 20);
        thread::scope(|scope| {
            for thread in 1..5 {
                let writes = &writes;
                scope.spawn(move || {
                    for nth in 0..200 {
                        let len = (thread * 7 + nth * 5) % 16 * (MIB / 4) + 1;
                        let len = len.min(writes.most);
                        let mut write = writes.get(len).unwrap();
                        write
                            .fill(|bytes, _| {
                                bytes[len - 1] = thread as u8;
                                Ok::<_, ()>(())
                            })
                            .unwrap();
                        held(writes);
                        assert_eq!(write.bytes()[len - 1], thread as u8);
                        if nth % 50 == 0 {
                            writes.release();
                        }
                    }
                });
            }
        });
        assert_eq!(held(&writes).0, 0);
    }
}
