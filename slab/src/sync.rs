//! The types for synchronisation. The crate imports them only from this module and from `bits`. So
//! loom can replace the types of data that threads share without a lock. No model contains a whole
//! cache.

pub(crate) use page::fork::Mutex;
pub(crate) use rustix_futex_sync::MutexGuard;
pub(crate) use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

/// A fence that gives loom's models sequential consistency, which loom supports only for fences. In
/// other builds the fence is empty, because the accesses before and after the fence are
/// sequentially consistent.
#[inline]
pub(crate) fn fence_in_models() {
    #[cfg(loom)]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
