//! All synchronisation of this crate comes from here, and from `bits`, so that loom can stand in
//! where threads share without a lock. No model makes a whole cache.

pub(crate) use page::fork::Mutex;
pub(crate) use rustix_futex_sync::MutexGuard;
pub(crate) use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

/// Of sequential consistency loom knows fences only; elsewhere the accesses around have it
/// themselves.
#[inline]
pub(crate) fn fence_in_models() {
    #[cfg(loom)]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
