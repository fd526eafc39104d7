//! Ranges of addresses that the system refused to take back when their owners were dropped:
//! unmapped when the next one is. They hold no memory, but addresses and their page tables.
//!
//! # Safety
//! A range is here once, from when its owner gave it up until it is unmapped; nothing else knows of
//! it.
#![allow(unsafe_code)]

use crate::fork::Mutex;
use crate::mapping::unmap_again;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of these ranges.
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// Only tried for: no one waits for it, in a child neither.
static RANGES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Bytes of address space that are in no use, and that the system has refused to take back so far,
/// since the process had all the mappings it may have (`vm.max_map_count`).
pub fn stuck_bytes() -> usize {
    BYTES.load(Relaxed)
}

/// Keeps a range that could not be unmapped. Where even that can't be noted, it stays for the life
/// of the process.
pub(crate) fn add(start: NonNull<u8>, len: usize) {
    BYTES.fetch_add(len, Relaxed);
    if let Some(mut ranges) = RANGES.try_lock()
        && ranges.try_reserve(1).is_ok()
    {
        ranges.push((start.as_ptr().expose_provenance(), len));
    }
}

/// Tries once more to unmap them.
pub(crate) fn retry() {
    if BYTES.load(Relaxed) == 0 {
        return;
    }
    let Some(mut ranges) = RANGES.try_lock() else { return };
    ranges.retain(|&(start, len)| {
        let start = NonNull::new(std::ptr::with_exposed_provenance_mut(start));
        // SAFETY: `add` was given it, and it goes from the list when it is unmapped.
        let is_gone = start.is_none_or(|start| unsafe { unmap_again(start, len) });
        BYTES.fetch_sub(if is_gone { len } else { 0 }, Relaxed);
        !is_gone
    });
}
