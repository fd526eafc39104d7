//! All synchronisation of this crate comes from here.

pub(crate) use page::fork::Mutex;
pub(crate) use rustix_futex_sync::MutexGuard;
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};
