//! What a save gathers a chunk in: made for each save, or kept from the start for one that must not
//! fail for want of memory.

use super::format::{ALIGN, CHUNK_HEAD_BYTES, CHUNK_MAX};
use crate::Error;
use crate::try_vec::with_room;
use rustix_futex_sync::Mutex;

/// A chunk's records, and their bytes. They have room for all that may be in one.
#[derive(Debug)]
pub(crate) struct ChunkBuffers {
    pub(super) records: Vec<u8>,
    pub(super) objects: Vec<u8>,
}

/// Where a device keeps some.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers(Mutex<Option<ChunkBuffers>>);

impl ChunkBuffers {
    fn new() -> Result<Self, Error> {
        let (records, objects) =
            (with_room(CHUNK_HEAD_BYTES + CHUNK_MAX)?, with_room(CHUNK_MAX + ALIGN)?);
        Ok(ChunkBuffers { records, objects })
    }
}

impl SpareBuffers {
    /// Keeps some from now on, if there are none.
    pub(crate) fn make(&self) -> Result<(), Error> {
        let mut kept = self.0.lock();
        if kept.is_none() {
            *kept = Some(ChunkBuffers::new()?);
        }
        Ok(())
    }

    /// Returns the buffers that are kept, or others, and whether they have to come back.
    pub(super) fn take(&self) -> Result<(ChunkBuffers, bool), Error> {
        match self.0.lock().take() {
            Some(buffers) => Ok((buffers, true)),
            None => Ok((ChunkBuffers::new()?, false)),
        }
    }

    /// Keeps them again.
    pub(super) fn put_back(&self, buffers: ChunkBuffers) {
        *self.0.lock() = Some(buffers);
    }
}
