//! Reads of the backing store for a save. A separate thread reads into buffers that were allocated
//! in advance. If a read does not return, the save continues without this thread.

use crate::Error;
use crate::backing::{CHECKSUM_BYTES, PlaceGuard, ReadBack};
use crate::job::Job;
use crate::layout::Layout;
use crate::policy::{CANCEL_TICK, SAVE_READ_STACK};
use crate::slot::BackingPlace;
use crate::try_vec::with_room;
use rustix::io::Errno;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The objects of one block that were read from the store, and the objects that can't be read.
pub(super) struct BlockReads {
    pub(super) read_back: Vec<ReadBack>,
    unread: Vec<(u32, BackingPlace)>,
    /// Buffers for all objects that a block can have in the store, ordered by size.
    spare_buffers: Vec<Vec<u8>>,
}

impl BlockReads {
    /// Allocates buffers for the objects that one block can have in the store: its own object, and
    /// the objects of its single slots.
    pub(super) fn new(layout: Layout) -> Result<Self, Error> {
        let slots = layout.slots() as usize;
        let mut spare = Vec::with_capacity(slots + 1);
        for _ in 0..slots {
            spare.push(with_room(crate::SLOT_BYTES + CHECKSUM_BYTES)?);
        }
        if layout.has_blocks() {
            spare.push(with_room(layout.block_bytes() + CHECKSUM_BYTES)?);
        }
        let (read_back, unread) = (Vec::with_capacity(slots + 1), Vec::with_capacity(slots + 1));
        Ok(BlockReads { read_back, unread, spare_buffers: spare })
    }

    /// Returns true if an earlier attempt to read this object failed.
    pub(super) fn is_unread(&self, guard: &PlaceGuard) -> bool {
        self.unread.contains(&(guard.entry, guard.place))
    }

    /// Records that an object can't be read, and keeps the object's buffer for reuse.
    pub(super) fn note_unread(&mut self, of: (u32, BackingPlace), buffer: Vec<u8>) {
        self.unread.push(of);
        self.put_back(Some(buffer).filter(|buffer| buffer.capacity() > 0));
    }

    fn put_back(&mut self, buffers: impl IntoIterator<Item = Vec<u8>>) {
        self.spare_buffers.extend(buffers);
        self.spare_buffers.sort_unstable_by_key(Vec::capacity);
    }

    /// Returns a buffer for an object of `len` bytes.
    pub(super) fn spare_for(&mut self, len: usize) -> Vec<u8> {
        let fits = |spare: &Vec<u8>| spare.capacity() >= len + CHECKSUM_BYTES;
        // If a read that did not return still uses the buffer, a new buffer is allocated.
        self.spare_buffers
            .iter()
            .position(fits)
            .map_or_else(Vec::new, |nth| self.spare_buffers.remove(nth))
    }

    /// Clears the records of the previous block.
    pub(super) fn clear(&mut self) {
        self.unread.clear();
        let mut read_back = std::mem::take(&mut self.read_back);
        self.put_back(read_back.drain(..).map(|of| of.bytes));
        self.read_back = read_back;
    }
}

/// The thread that reads the store.
pub(super) struct BackingReader {
    /// The thread, and the time limit of a read. The value is `None` if reads have no time limit or
    /// no thread could be started.
    reader: Option<(Arc<Reader>, Duration)>,
}

#[derive(Default)]
struct Reader {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The requested object, the number of its slot for error messages, and a buffer.
    asked: Option<(PlaceGuard, u32, Vec<u8>)>,
    is_reading: bool,
    /// The result of the last read.
    done: Option<Read>,
    is_over: bool,
}

/// The object that was read, or an error and the buffer of the read. If the reading thread still
/// uses its buffer, the error contains an empty buffer.
type Read = Result<ReadBack, (Error, Vec<u8>)>;

impl BackingReader {
    /// Starts a reader that waits at most `patience` for each read, or without a limit if
    /// `patience` is `None`.
    pub(super) fn new(patience: Option<Duration>) -> Self {
        let reader = patience.and_then(|patience| {
            let reader = Arc::new(Reader::default());
            let its = reader.clone();
            let named =
                thread::Builder::new().name("uzram-save".to_owned()).stack_size(SAVE_READ_STACK);
            named.spawn(move || its.read_all()).ok()?;
            Some((reader, patience))
        });
        BackingReader { reader }
    }

    /// Reads an object into `buffer`. `slot` is used only in error messages.
    ///
    /// # Errors
    /// The object can't be read, or the read exceeds the time limit; [`Error::Cancelled`] if the
    /// job is cancelled.
    pub(super) fn read(
        &self,
        guard: PlaceGuard,
        slot: u32,
        buffer: Vec<u8>,
        job: &Job<'_>,
    ) -> Read {
        let Some((reader, patience)) = &self.reader else { return guard.read_into(buffer, slot) };
        let late = || Error::backing("read", slot, &io::Error::from(Errno::TIMEDOUT));
        let mut state = reader.lock();
        if state.is_reading || state.asked.is_some() {
            return Err((late(), buffer));
        }
        // If an earlier read returned late, its result is discarded here.
        (state.asked, state.done) = (Some((guard, slot, buffer)), None);
        reader.changed.notify_all();
        let until = Instant::now() + *patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let waited = reader.changed.wait_timeout(state, left.min(CANCEL_TICK));
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if let Some(done) = state.done.take() {
                return done;
            }
            job.check_cancelled().map_err(|cancelled| (cancelled, Vec::new()))?;
            if left.is_zero() {
                return Err((late(), Vec::new()));
            }
        }
    }
}

/// Asks the thread to exit as soon as it can.
impl Drop for BackingReader {
    fn drop(&mut self) {
        if let Some((reader, _)) = &self.reader {
            reader.lock().is_over = true;
            reader.changed.notify_all();
        }
    }
}

impl Reader {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_all(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let Some((guard, slot, buffer)) = state.asked.take() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.is_reading = true;
            drop(state);
            let done = guard.read_into(buffer, slot);
            state = self.lock();
            (state.done, state.is_reading) = (Some(done), false);
            self.changed.notify_all();
        }
    }
}
