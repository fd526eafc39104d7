//! The crate imports all types for synchronisation from here and from `bits`, so that loom can
//! replace the types of data that threads share without a lock. No model contains a whole cache.

pub(crate) use page::fork::Mutex;
pub(crate) use rustix_futex_sync::MutexGuard;
pub(crate) use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

/// A fence that gives loom's models sequential consistency, which loom supports only for fences. In
/// other builds the fence is empty, because the accesses around it are sequentially consistent
/// themselves.
#[inline]
pub(crate) fn fence_in_models() {
    #[cfg(loom)]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
