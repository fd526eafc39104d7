//! Memory that goes back to the system when it is dropped, at once, and costs nothing until it is
//! touched. What is freed to `malloc` by many threads stays with the process: a megabyte and a half
//! after four connections.

use memmap2::MmapMut;
use std::io;
use std::ops::{Deref, DerefMut};

/// Bytes, zeros at first.
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
