//! Memory for long writes, which are stored only once they are here whole. All connections share
//! it, and wait for it in turn: so many clients need no more of it than one.

use super::bounds::LARGE_BYTES;
use super::buffer::Buffer;
use rustix_futex_sync::{Condvar, Mutex};
use std::io;
use std::time::{Duration, Instant};
use zram::room;

/// A client that sends into this memory may take so long while others wait, and longer writes at
/// this rate.
const GRACE: Duration = Duration::from_secs(1);
const BYTES_PER_SECOND: u64 = 16 << 20;

/// The memory for all long writes.
#[derive(Debug, Default)]
pub(crate) struct LargeWrites {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Numbers of the waiting writes, given out and served in order: none is passed over for a
    /// shorter write.
    next: u64,
    served: u64,
}

/// A long write's memory.
#[derive(Debug)]
pub(crate) struct LargeWrite<'l> {
    bytes: Buffer,
    grant: LargeGrant<'l>,
}

/// What it takes of what all connections share.
#[derive(Debug)]
struct LargeGrant<'l> {
    writes: &'l LargeWrites,
    since: Instant,
    len: usize,
}

impl LargeWrites {
    /// Waits until there is room for `len` bytes.
    pub(crate) fn get(&self, len: usize) -> io::Result<LargeWrite<'_>> {
        let mut state = self.state.lock();
        let turn = state.next;
        state.next += 1;
        while state.served != turn || state.used + len > LARGE_BYTES {
            state = self.freed.wait(state);
        }
        state.served += 1;
        state.used += len;
        drop(state);
        // The next in turn may fit beside this one.
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

    /// Has `fill` fill it, which may ask whether it is late.
    pub(crate) fn fill<E>(
        &mut self,
        fill: impl FnOnce(&mut [u8], &dyn Fn() -> bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let LargeWrite { bytes, grant } = self;
        fill(bytes, &|| grant.is_late())
    }
}

impl LargeGrant<'_> {
    /// Returns whether it was had for too long, seeing that others wait.
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
