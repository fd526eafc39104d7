//! All synchronisation of this crate comes from here.

pub(crate) use crate::fork::Mutex;
pub(crate) use rustix_futex_sync::Condvar;
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
