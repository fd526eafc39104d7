//! The atomics and locks of this crate. In the loom models of this crate, loom's atomics replace
//! the standard library's.

pub(crate) use crate::fork::Mutex;

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
