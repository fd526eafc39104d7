//! All synchronisation of this crate comes from here.

pub(crate) use rustix_futex_sync::{Mutex, MutexGuard};
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
