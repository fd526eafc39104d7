//! All synchronisation of this crate comes from here, so that loom can stand in where threads share without a lock:
//! in magazines and live bits. No model makes a whole cache.

#[cfg(loom)]
pub(crate) use loom::{cell::UnsafeCell, sync::atomic::AtomicU64};
pub(crate) use page::fork::Mutex;
pub(crate) use rustix_futex_sync::MutexGuard;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering::Acquire,
    Ordering::Relaxed, Ordering::Release,
};

/// A cell as loom's, which watches who is in it.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, look: impl FnOnce(*mut T) -> R) -> R {
        look(self.0.get())
    }
}
