//! The locks and atomics of the caches: the system's in a model too, as these locks are held over
//! no step that loom knows.

pub(super) use page::fork::Mutex;
pub(super) use rustix_futex_sync::MutexGuard;
pub(super) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed,
};
