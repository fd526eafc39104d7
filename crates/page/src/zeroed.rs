//! Types that may lie in newly mapped memory, or in memory that was given back, without being
//! written first.
//!
//! # Safety
//! Memory that the system provides, for the first time or again, reads as zero. So a value there
//! must be valid if all its bytes are zero, and must need no drop.
#![allow(unsafe_code)]

use crate::bits::{PageSet, Residency};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64};

/// A type whose values may start, and may be reset, as zero bytes.
///
/// # Safety
/// All zero bytes are a valid value, at any time and for every holder of a reference: all mutable
/// parts are atomic.
pub unsafe trait Zeroed: Send + Sync {}

// SAFETY: it has no bytes.
unsafe impl Zeroed for () {}
// SAFETY: an atomic integer is valid with any bytes.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: a null pointer is valid.
unsafe impl<T> Zeroed for AtomicPtr<T> {}
// SAFETY: it is an array of AtomicU64.
unsafe impl<const W: usize> Zeroed for PageSet<W> {}
// SAFETY: its fields are two PageSets.
unsafe impl<const W: usize> Zeroed for Residency<W> {}
