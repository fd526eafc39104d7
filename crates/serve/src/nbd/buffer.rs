//! Buffers in separate mappings. A buffer takes no memory until it is touched, and a drop returns
//! its memory to the system. The C library would keep a part of the memory that many threads have
//! freed, for example 1.5 MiB after four connections.

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
