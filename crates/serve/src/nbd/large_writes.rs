//! Memory for the payloads of long writes: a write is applied only once it was received whole. All
//! connections share the memory and wait for it in turn, so many clients take no more than one.
//!
//! Buffers of writes that were served are kept for the next ones, because the first touch of new
//! memory takes longer than the receipt of its contents. Buffers in use and spare ones are within
//! the bound together. Spare buffers are released once no long write has ended for a second.

use super::buffer::Buffer;
use rustix_futex_sync::{Condvar, Mutex};
use std::io;
use std::time::{Duration, Instant};
use zram::room;

/// While others wait, a client has this time to send a write, plus its length divided by this rate.
const GRACE: Duration = Duration::from_secs(1);
const BYTES_PER_SECOND: u64 = 16 << 20;

/// Spare buffers are kept for this time after the last long write.
const SPARE_WITHIN: Duration = Duration::from_secs(1);
/// A spare buffer serves writes of at least its length divided by this.
const SPARE_RATIO: usize = 2;

/// The memory for all long writes.
#[derive(Debug)]
pub(crate) struct LargeWrites {
    most: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of the buffers in use.
    used: usize,
    spares: Vec<Buffer>,
    /// When a buffer became spare last.
    spared: Option<Instant>,
    /// The next ticket to be given out, and the next to be served. Writes get memory in the order
    /// of their tickets, so no long write starves while shorter ones fit.
    next: u64,
    served: u64,
}

/// The payload of a long write. Others can have the memory once this is dropped.
#[derive(Debug)]
pub(crate) struct LargeWrite<'l> {
    writes: &'l LargeWrites,
    since: Instant,
    len: usize,
    /// It is longer than `len` if it was used before. There is none after a failure.
    buffer: Option<Buffer>,
    /// Bytes that it takes of the memory.
    charged: usize,
}

impl State {
    fn spare_bytes(&self) -> usize {
        self.spares.iter().map(|buffer| buffer.len()).sum()
    }

    /// Returns a spare buffer for `len` bytes. If there is none, drops spares until `len` bytes
    /// more are within `most`.
    fn take_spare(&mut self, len: usize, most: usize) -> Option<Buffer> {
        let fits =
            |buffer: &Buffer| (len..=len.saturating_mul(SPARE_RATIO)).contains(&buffer.len());
        if let Some(at) = self.spares.iter().position(fits) {
            return Some(self.spares.swap_remove(at));
        }
        while self.used + self.spare_bytes() + len > most && self.spares.pop().is_some() {}
        None
    }
}

impl LargeWrites {
    /// Makes `most` bytes of memory for long writes.
    pub(crate) fn new(most: u32) -> Self {
        LargeWrites { most: most as usize, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Returns whether a write has had the memory for too long while others wait.
    fn is_late(&self, since: Instant, len: usize) -> bool {
        let grace = GRACE + Duration::from_secs(len as u64 / BYTES_PER_SECOND);
        let is_waited_for = || {
            let state = self.state.lock();
            state.next > state.served
        };
        since.elapsed() > grace && is_waited_for()
    }

    /// Waits for its turn and for room, and returns a payload of `len` bytes.
    pub(crate) fn get(&self, len: usize) -> io::Result<LargeWrite<'_>> {
        if len > self.most {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mut state = self.state.lock();
        let turn = state.next;
        state.next += 1;
        while state.served != turn || state.used + len > self.most {
            state = self.freed.wait(state);
        }
        state.served += 1;
        let buffer = state.take_spare(len, self.most);
        let charged = buffer.as_ref().map_or(len, |buffer| buffer.len());
        state.used += charged;
        drop(state);
        // The next write in turn may fit beside this one.
        self.freed.notify_all();
        let mut write = LargeWrite { writes: self, since: Instant::now(), len, buffer, charged };
        if write.buffer.is_none() {
            if !room::is_left(len) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            write.buffer = Some(Buffer::new(len)?);
        }
        Ok(write)
    }

    /// Releases spare buffers if no long write has ended for a while.
    pub(crate) fn release_idle(&self) {
        self.release_if(|since| since.elapsed() >= SPARE_WITHIN);
    }

    /// Releases all spare buffers.
    pub(crate) fn release(&self) {
        self.release_if(|_| true);
    }

    fn release_if(&self, is_due: impl FnOnce(Instant) -> bool) {
        let mut state = self.state.lock();
        let spares = match state.spared {
            Some(since) if is_due(since) => {
                state.spared = None;
                std::mem::take(&mut state.spares)
            }
            _ => return,
        };
        // The system takes the memory back without the lock.
        drop(state);
        drop(spares);
    }
}

impl LargeWrite<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().map_or(&[], |bytes| &bytes[..self.len])
    }

    /// Has `fill` receive the payload. The function that `fill` gets returns whether the write has
    /// had the memory for too long.
    pub(crate) fn fill<E>(
        &mut self,
        fill: impl FnOnce(&mut [u8], &dyn Fn() -> bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let (writes, since, len) = (self.writes, self.since, self.len);
        let bytes = self.buffer.as_deref_mut().map_or(&mut [][..], |bytes| &mut bytes[..len]);
        fill(bytes, &|| writes.is_late(since, len))
    }
}

impl Drop for LargeWrite<'_> {
    fn drop(&mut self) {
        let mut state = self.writes.state.lock();
        state.used -= self.charged;
        if let Some(buffer) = self.buffer.take() {
            state.spares.push(buffer);
            state.spared = Some(Instant::now());
        }
        drop(state);
        self.writes.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn held(writes: &LargeWrites) -> (usize, usize) {
        let state = writes.state.lock();
        assert!(state.used + state.spare_bytes() <= writes.most);
        (state.used, state.spare_bytes())
    }

    #[test]
    fn buffers_are_used_again_within_the_bound() {
        let writes = LargeWrites::new(8 << 20);
        let first = writes.get(MIB).unwrap();
        let at = first.bytes().as_ptr();
        drop(first);
        assert_eq!(held(&writes), (0, MIB));
        // Half of its length and more use it, and less does not.
        let second = writes.get(MIB / 2).unwrap();
        assert_eq!((second.bytes().as_ptr(), second.bytes().len()), (at, MIB / 2));
        assert_eq!(held(&writes), (MIB, 0));
        drop(second);
        let small = writes.get(MIB / 2 - 1).unwrap();
        assert_ne!(small.bytes().as_ptr(), at);
        assert_eq!(held(&writes), (MIB / 2 - 1, MIB));
        drop(small);
        // A write of all the memory leaves no room for spares.
        let all = writes.get(8 * MIB).unwrap();
        assert_eq!(held(&writes), (8 * MIB, 0));
        drop(all);
        assert_eq!(held(&writes), (0, 8 * MIB));
    }

    #[test]
    fn spare_buffers_are_released() {
        let writes = LargeWrites::new(8 << 20);
        drop(writes.get(MIB).unwrap());
        writes.state.lock().spared = Some(Instant::now() + SPARE_WITHIN);
        writes.release_idle();
        assert_eq!(held(&writes), (0, MIB));
        writes.state.lock().spared = Instant::now().checked_sub(SPARE_WITHIN);
        writes.release_idle();
        assert_eq!(held(&writes), (0, 0));
        drop(writes.get(MIB).unwrap());
        writes.release();
        assert_eq!(held(&writes), (0, 0));
    }
}
