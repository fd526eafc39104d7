//! What the descriptor of a zspage's extent keeps.
//!
//! # Safety
//! Null is a valid pointer to a header: there is none.
#![allow(unsafe_code)]

use crate::sync::{AtomicPtr, Ordering, Ordering::Relaxed};
use page::Zeroed;
use std::ptr::{NonNull, null_mut};

/// Bits of a header's address, as of a node's of the table of words; above them is the class.
const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;

/// Where a zspage's header is, and the zspage's class, in one word. An extent's number is used
/// again: read one after the other, header and class could be of two lives of it. Null where there
/// is no zspage, or one that is being made or destroyed. It changes under the class's lock only.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct HeaderPtr(AtomicPtr<u8>);

// SAFETY: an atomic pointer, of which null is valid.
unsafe impl Zeroed for HeaderPtr {}

impl HeaderPtr {
    /// Makes it a zspage of `class`, or gives it another header.
    ///
    /// # Safety
    /// The header is one for that class's objects, and stays as long as it is this zspage's.
    pub(crate) unsafe fn attach(&self, class: u32, header: NonNull<u8>) {
        let raw = header.as_ptr();
        assert!(raw.addr() <= ADDRESS && class >> (usize::BITS - ADDRESS_BITS) == 0, "{raw:?}");
        let raw = raw.map_addr(|address| address | (class as usize) << ADDRESS_BITS);
        self.0.store(raw, Ordering::Release);
    }

    /// Makes it none.
    pub(crate) fn detach(&self) {
        self.0.store(null_mut(), Relaxed);
    }

    /// Returns the header, if it is a zspage of `class`. While a caller holds that class's lock the
    /// answer does not change.
    #[inline]
    pub(crate) fn header(&self, class: u32) -> Option<NonNull<u8>> {
        let raw = self.0.load(Ordering::Acquire);
        let header = NonNull::new(raw.map_addr(|address| address & ADDRESS));
        header.filter(|_| (raw.addr() >> ADDRESS_BITS) as u32 == class)
    }

    /// Returns whether it is a zspage, of whichever class.
    pub(crate) fn is_attached(&self) -> bool {
        !self.0.load(Ordering::Acquire).is_null()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_found_by_its_class_alone() {
        let zspage = HeaderPtr(AtomicPtr::default());
        let [header, other] = [0x7fff_ffff_fff8, 8]
            .map(|address| NonNull::new(std::ptr::without_provenance_mut(address)).unwrap());
        assert!(!zspage.is_attached() && zspage.header(0).is_none());
        for class in [0, 1, 700, 0xffff] {
            // SAFETY: no one looks at it.
            unsafe { zspage.attach(class, header) };
            assert_eq!((zspage.header(class), zspage.header(class ^ 1)), (Some(header), None));
            // SAFETY: as above.
            unsafe { zspage.attach(class, other) };
            assert_eq!(zspage.header(class), Some(other));
            zspage.detach();
            assert!(!zspage.is_attached() && zspage.header(class).is_none());
        }
    }
}
