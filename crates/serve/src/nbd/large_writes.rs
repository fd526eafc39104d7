//! Memory for the payloads of long writes: a write is applied only once it was received whole. All
//! connections share the memory and wait for it in turn, so many clients take no more than one.

use super::buffer::Buffer;
use rustix_futex_sync::{Condvar, Mutex};
use std::io;
use std::time::{Duration, Instant};
use zram::room;

/// While others wait, a client has this time to send a write, plus its length divided by this rate.
const GRACE: Duration = Duration::from_secs(1);
const BYTES_PER_SECOND: u64 = 16 << 20;

/// The memory for all long writes.
#[derive(Debug)]
pub(crate) struct LargeWrites {
    most: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// The next ticket to be given out, and the next to be served. Writes get memory in the order
    /// of their tickets, so no long write starves while shorter ones fit.
    next: u64,
    served: u64,
}

/// The payload of a long write.
#[derive(Debug)]
pub(crate) struct LargeWrite<'l> {
    bytes: Buffer,
    grant: LargeGrant<'l>,
}

/// A write's share of the memory, which others can have once this is dropped.
#[derive(Debug)]
struct LargeGrant<'l> {
    writes: &'l LargeWrites,
    since: Instant,
    len: usize,
}

impl LargeWrites {
    /// Makes `most` bytes of memory for long writes.
    pub(crate) fn new(most: u32) -> Self {
        LargeWrites { most: most as usize, state: Mutex::default(), freed: Condvar::new() }
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
        state.used += len;
        drop(state);
        // The next write in turn may fit beside this one.
        self.freed.notify_all();
        let grant = LargeGrant { writes: self, since: Instant::now(), len };
        if !room::is_left(len) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(LargeWrite { bytes: Buffer::new(len)?, grant })
    }
}

impl LargeWrite<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Has `fill` receive the payload. The function that `fill` gets returns whether the write has
    /// had the memory for too long.
    pub(crate) fn fill<E>(
        &mut self,
        fill: impl FnOnce(&mut [u8], &dyn Fn() -> bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let LargeWrite { bytes, grant } = self;
        fill(bytes, &|| grant.is_late())
    }
}

impl LargeGrant<'_> {
    /// Returns whether the write has had the memory for too long while others wait.
    fn is_late(&self) -> bool {
        let grace = GRACE + Duration::from_secs(self.len as u64 / BYTES_PER_SECOND);
        let is_waited_for = || {
            let state = self.writes.state.lock();
            state.next > state.served
        };
        self.since.elapsed() > grace && is_waited_for()
    }
}

impl Drop for LargeGrant<'_> {
    fn drop(&mut self) {
        self.writes.state.lock().used -= self.len;
        self.writes.freed.notify_all();
    }
}
