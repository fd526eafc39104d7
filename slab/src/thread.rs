//! Small numbers that identify threads. A number is reused after its thread has exited.
//!
//! Lock order: `CACHES` is taken before any cache's lock, and `TAKEN` after all other locks. While
//! `CACHES` or `TAKEN` is held, no user code is called, because a destructor may end a cache, which
//! takes `CACHES`.
//!
//! # Safety
//! This file declares one unsafe function, and calls none.
#![allow(unsafe_code)]

use crate::bits::RESERVE;
use crate::sync::Mutex;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// The number of possible `Number`s, including 0, which no thread has. Further threads have no
/// number and own no slabs.
pub(crate) const NUMBERS: usize = 1 << u8::BITS;

/// The calling thread's number. A `Number` is not `Send`, so only the thread with this number can
/// hold it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    /// The number, at least 1; 0 means no thread.
    number: u8,
    here: PhantomData<*const ()>,
}

impl Number {
    /// The number that no thread has.
    pub(crate) const NONE: Number = Number { number: 0, here: PhantomData };

    /// Returns the index of this thread's data in an array of the data of all threads. Index 0
    /// belongs to no thread.
    #[inline]
    pub(crate) fn index(self) -> u8 {
        self.number
    }

    /// Returns true if `owner` is the number of this thread; 0 means no thread.
    #[inline]
    pub(crate) fn is(self, owner: u32) -> bool {
        self.raw() == owner && owner != 0
    }

    #[inline]
    pub(crate) fn raw(self) -> u32 {
        self.number.into()
    }

    #[inline]
    fn new(number: u8) -> Self {
        Number { number, here: PhantomData }
    }
}

/// A structure that keeps data for each thread.
pub(crate) trait ThreadHooks: Send + Sync {
    /// Gives up the data of the exiting thread. The registry is locked, so an implementation must
    /// not call foreign code, for example a destructor.
    fn on_exit(&self, number: Number);

    /// Reclaims the slabs above the limits after [`on_exit`](Self::on_exit).
    fn after_exit(&self);

    /// Takes the structure's locks for a fork.
    fn lock_for_fork(&self);

    /// Releases the locks that `lock_for_fork` took.
    fn unlock_after_fork(&self);

    /// Gives up, in a child, the data of all threads except the calling thread.
    /// # Safety
    /// The process has no other threads.
    unsafe fn repair(&self, number: Number);
}

/// The caches. The flag of a cache is true if [`forget`] has unregistered the cache.
static CACHES: Mutex<Vec<(Weak<dyn ThreadHooks>, bool)>> = Mutex::new(Vec::new());
/// Bit n is set while a thread has number n.
static TAKEN: Mutex<[u64; NUMBERS / 64]> = Mutex::new([1, 0, 0, 0]);

/// The next mark to assign.
static MARKS: AtomicU32 = AtomicU32::new(NUMBERS as u32);

thread_local! {
    /// The number of this thread: 0 before the first use, and again while the thread is exiting.
    static NUMBER: Cell<u8> = const { Cell::new(0) };
    /// The mark of this thread: 0 before the first use. The variable has no destructor, so it
    /// remains valid until the thread ends.
    static MARK: Cell<u32> = const { Cell::new(0) };
    static LEAVES: Leaves = const { Leaves };
}

/// Returns the mark of the calling thread. While a thread creates or reclaims a slab, the slab's
/// owner is the mark of this thread. Every thread has a mark, even a thread without a number. A
/// mark differs from all numbers of threads and from the marks of other threads. Marks are reused
/// only after four billion threads. The only effect of a reuse is that a child forked at that
/// moment may never reclaim one slab of a thread that does not exist in the child.
pub(crate) fn mark() -> u32 {
    if MARK.get() == 0 {
        let next = |mark| if mark + 1 < RESERVE { mark + 1 } else { NUMBERS as u32 };
        MARK.set(MARKS.update(Relaxed, Relaxed, next));
    }
    MARK.get()
}

/// Registers a cache to be notified of exiting threads.
pub(crate) fn register(cache: Weak<dyn ThreadHooks>) {
    CACHES.lock().push((cache, false));
}

/// Unregisters a cache. When this function returns, no thread is executing the cache's
/// [`ThreadHooks::on_exit`], and none will call it. Forks still lock the cache, because other
/// threads may reclaim its slabs.
pub(crate) fn forget(cache: &Arc<dyn ThreadHooks>) {
    let gone = Arc::downgrade(cache);
    let mut caches = CACHES.lock();
    caches.retain(|(cache, _)| cache.strong_count() > 0);
    caches.iter_mut().filter(|(cache, _)| cache.ptr_eq(&gone)).for_each(|(_, ends)| *ends = true);
}

/// Locks the registry for a fork, and adds its caches to `all`.
pub(crate) fn lock_for_fork(all: &mut Vec<Arc<dyn ThreadHooks>>) {
    CACHES.lock_for_fork_with(|caches| {
        all.extend(caches.iter().filter_map(|(cache, _)| cache.upgrade()))
    });
}

/// Releases the lock that [`lock_for_fork`] took.
pub(crate) fn unlock_after_fork() {
    CACHES.unlock_after_fork();
}

/// Locks the numbers for a fork. This lock is taken after all other locks.
pub(crate) fn lock_numbers_for_fork() {
    TAKEN.lock_for_fork();
}

/// Releases the lock that [`lock_numbers_for_fork`] took.
pub(crate) fn unlock_numbers_after_fork() {
    TAKEN.unlock_after_fork();
}

/// Frees the numbers of other threads in a child. Returns the calling thread's number.
pub(crate) fn forget_lost() -> Number {
    let number = number_if_known();
    let place = usize::from(number.index());
    let mut taken = TAKEN.lock();
    *taken = [1, 0, 0, 0];
    taken[place / 64] |= 1 << (place % 64);
    number
}

/// Returns the calling thread's number, or [`Number::NONE`] before its first call of [`number`].
#[inline]
pub(crate) fn number_if_known() -> Number {
    Number::new(NUMBER.get())
}

/// Returns the calling thread's number, or [`Number::NONE`] if all numbers are taken or the thread
/// is exiting.
pub(crate) fn number() -> Number {
    if NUMBER.get() == 0 && LEAVES.try_with(|_| ()).is_ok() {
        NUMBER.set(take());
    }
    number_if_known()
}

fn take() -> u8 {
    let mut taken = TAKEN.lock();
    let Some(word) = taken.iter().position(|&word| word != u64::MAX) else { return 0 };
    let bit = taken[word].trailing_ones();
    taken[word] |= 1 << bit;
    (word as u32 * 64 + bit) as u8
}

/// A value in thread-local storage, which is dropped when its thread exits.
struct Leaves;

impl Drop for Leaves {
    fn drop(&mut self) {
        let number = number_if_known();
        if number.raw() == 0 {
            return;
        }
        let place = usize::from(number.index());
        let mut left = Vec::new();
        let caches = CACHES.lock();
        let kept = caches.iter().filter(|(_, is_forgotten)| !is_forgotten);
        for cache in kept.filter_map(|(cache, _)| cache.upgrade()) {
            cache.on_exit(number);
            // If no memory is available, the cache is cleaned up later. This reference to the cache
            // is not the last one, because a thread that ends a cache first removes it from the
            // registry.
            if left.try_reserve(1).is_ok() {
                left.push(cache);
            }
        }
        drop(caches);
        NUMBER.set(0);
        TAKEN.lock()[place / 64] &= !(1 << (place % 64));
        // Calls the caches while this thread holds no lock and has no number, because destructors
        // are allowed to use, create and end caches.
        left.into_iter().for_each(|cache| cache.after_exit());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_no_numbers_and_no_others() {
        let mine = mark();
        let other = std::thread::spawn(mark).join().unwrap();
        assert!(mine >= NUMBERS as u32 && other >= NUMBERS as u32 && mine != other);
        assert_eq!(mark(), mine);
    }

    #[test]
    fn numbers_are_used_again() {
        let mine = number().index();
        for _ in 0..NUMBERS * 2 {
            let other = std::thread::spawn(|| number().index()).join().unwrap();
            assert!(other != 0 && other != mine);
        }
    }
}
