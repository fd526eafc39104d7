//! The buffers for a chunk of a save. Each save allocates buffers, or the device keeps buffers so
//! that a save does not fail for lack of memory.

use super::format::{ALIGN, CHUNK_HEAD_BYTES, CHUNK_MAX};
use crate::Error;
use crate::try_vec::with_room;
use rustix_futex_sync::Mutex;

/// The buffers for the records and objects of a chunk, large enough for any chunk.
#[derive(Debug)]
pub(crate) struct ChunkBuffers {
    pub(super) records: Vec<u8>,
    pub(super) objects: Vec<u8>,
}

/// The buffers that the device keeps, if any.
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
    /// Allocates buffers to keep, if none are kept yet.
    pub(crate) fn make(&self) -> Result<(), Error> {
        let mut kept = self.0.lock();
        if kept.is_none() {
            *kept = Some(ChunkBuffers::new()?);
        }
        Ok(())
    }

    /// Returns the kept buffers if they are available, otherwise new buffers. The second result is
    /// true if the caller must put the buffers back.
    pub(super) fn take(&self) -> Result<(ChunkBuffers, bool), Error> {
        match self.0.lock().take() {
            Some(buffers) => Ok((buffers, true)),
            None => Ok((ChunkBuffers::new()?, false)),
        }
    }

    /// Puts back the buffers that [`take`](Self::take) returned.
    pub(super) fn put_back(&self, buffers: ChunkBuffers) {
        *self.0.lock() = Some(buffers);
    }
}
