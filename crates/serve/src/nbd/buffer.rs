//! Buffers in separate mappings. A mapping takes no memory until it is touched, and its memory is
//! returned to the system when the buffer is dropped. The C library would keep a part of the memory
//! that many threads have freed: 1.5 MiB after four connections.

use memmap2::MmapMut;
use std::io;
use std::ops::{Deref, DerefMut};

/// A private anonymous mapping, initially all zeros.
#[derive(Debug)]
pub(crate) struct Buffer(MmapMut);

impl Buffer {
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        MmapMut::map_anon(len).map(Buffer)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
