//! The locks and atomics of the caches. Models use the real locks and atomics too, because loom
//! schedules no other thread while one of these locks is held.

pub(super) use page::fork::Mutex;
pub(super) use rustix_futex_sync::MutexGuard;
pub(super) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed,
};
