//! Types whose values can be read from newly mapped or released memory before they are written.
//!
//! # Safety
//! New memory, and memory that was released, reads as zero. So a value of such a type must be valid
//! if all its bytes are zero, and must need no drop.
#![allow(unsafe_code)]

use crate::bits::PageSet;
use crate::residency::Residency;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64};

/// A type whose values can begin as zero bytes, and can be reset to zero bytes.
///
/// # Safety
/// A value of zero bytes is valid. Zero bytes can replace a value at any time, even while
/// references to the value exist, because all mutable parts are atomic.
pub unsafe trait Zeroed: Send + Sync {}

// SAFETY: `()` has no bytes.
unsafe impl Zeroed for () {}
// SAFETY: an atomic integer is valid with any bytes.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: a null pointer is valid.
unsafe impl<T> Zeroed for AtomicPtr<T> {}
// SAFETY: a PageSet is an array of AtomicU64.
unsafe impl<const W: usize> Zeroed for PageSet<W> {}
// SAFETY: a Residency consists of two PageSets.
unsafe impl<const W: usize> Zeroed for Residency<W> {}
