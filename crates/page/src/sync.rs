//! All synchronisation of this crate comes from here, so that loom can stand in, in this crate's
//! own models.

pub(crate) use crate::fork::Mutex;
pub(crate) use rustix_futex_sync::Condvar;

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
