//! The descriptor of a zspage, the `data` of its extent's.
//!
//! ```text
//!   |  0  next        4  previous   |  zspages of the fullness group, as raw extent ids; 0 = none
//!   |  8  inuse      12  releasing  |  live objects; 1 while pages are being given back
//!   | 16  body                      |  bitmap of slots and their owners' numbers
//!   | 24  committed: 256 bits       |  pages that are committed
//!   | 56  ready: 256 bits           |  of them, those that no live object touches
//! ```
//!
//! All of it changes under the class's lock only; see `page::Extent` for why the fields are atomics.
//!
//! # Safety
//! A descriptor begins as zeros: its fields are atomics, for which zeros are valid.
#![allow(unsafe_code)]

use crate::sync::{AtomicPtr, AtomicU32, Ordering::Relaxed};
use page::PageSet;

#[derive(Debug)]
pub(crate) struct Zspage {
    pub(crate) next: AtomicU32,
    pub(crate) previous: AtomicU32,
    inuse: AtomicU32,
    releasing: AtomicU32,
    pub(crate) body: AtomicPtr<u8>,
    pub(crate) committed: PageSet,
    pub(crate) ready: PageSet,
}

// SAFETY: all its fields are atomic integers, or an atomic pointer, which may be null.
unsafe impl page::Zeroed for Zspage {}

impl Zspage {
    /// Makes the descriptor that of a zspage without objects. What is committed stays so.
    pub(crate) fn reset(&self) {
        self.next.store(0, Relaxed);
        self.previous.store(0, Relaxed);
        self.inuse.store(0, Relaxed);
        self.releasing.store(0, Relaxed);
        self.ready.clear();
    }

    /// Live objects: allocated slots, those held for a release left out.
    pub(crate) fn inuse(&self) -> u32 {
        self.inuse.load(Relaxed)
    }

    pub(crate) fn set_inuse(&self, inuse: u32) {
        self.inuse.store(inuse, Relaxed);
    }

    /// Whether a thread gives pages of this zspage back at the moment, outside the lock.
    pub(crate) fn releasing(&self) -> bool {
        self.releasing.load(Relaxed) != 0
    }

    pub(crate) fn set_releasing(&self, releasing: bool) {
        self.releasing.store(u32::from(releasing), Relaxed);
    }
}
