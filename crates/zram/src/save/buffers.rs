//! What a save gathers a chunk in: made for each save, or kept from the start for one that must not fail for want of
//! memory.

use super::format::{ALIGN, CHUNK_HEAD, CHUNK_MAX};
use crate::Error;
use crate::buffer::with_room;
use rustix_futex_sync::Mutex;

/// A chunk's entries, and their bytes. They have room for all that may be in one.
#[derive(Debug)]
pub(crate) struct Buffers {
    pub(super) entries: Vec<u8>,
    pub(super) objects: Vec<u8>,
}

/// Where a device keeps some.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Option<Buffers>>);

impl Buffers {
    fn new() -> Result<Self, Error> {
        let (entries, objects) =
            (with_room(CHUNK_HEAD + CHUNK_MAX)?, with_room(CHUNK_MAX + ALIGN)?);
        Ok(Buffers { entries, objects })
    }
}

impl Kept {
    /// Keeps some from now on, if there are none.
    pub(crate) fn make(&self) -> Result<(), Error> {
        let mut kept = self.0.lock();
        if kept.is_none() {
            *kept = Some(Buffers::new()?);
        }
        Ok(())
    }

    /// Those that are kept, or others; whether they are to come back.
    pub(super) fn take(&self) -> Result<(Buffers, bool), Error> {
        match self.0.lock().take() {
            Some(buffers) => Ok((buffers, true)),
            None => Ok((Buffers::new()?, false)),
        }
    }

    /// Keeps them again.
    pub(super) fn put_back(&self, buffers: Buffers) {
        *self.0.lock() = Some(buffers);
    }
}
