//! Numbers of threads: small, and used again when a thread has ended.
//!
//! Locks: `CACHES` is taken before any cache's, `TAKEN` last. Under none of them is anything called
//! that is a user's: a destructor may end a cache, which takes `CACHES`.
//!
//! # Safety
//! One function is declared unsafe, and none called.
#![allow(unsafe_code)]

use crate::bits::RESERVE;
use crate::sync::Mutex;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Numbers there are, 0 among them, which is no thread's. Threads beyond have none, and no slabs.
pub(crate) const NUMBERS: usize = 1 << u8::BITS;

/// The calling thread's number. It is not `Send`, so the thread that has it is the one it names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    /// From 1 on; 0 is none.
    number: u8,
    here: PhantomData<*const ()>,
}

impl Number {
    /// No thread's.
    pub(crate) const NONE: Number = Number { number: 0, here: PhantomData };

    /// Returns the place of the thread's things among those of all threads; 0 is no thread's.
    #[inline]
    pub(crate) fn index(self) -> u8 {
        self.number
    }

    /// Returns whether it is this thread that `owner` says; 0 is no one.
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

/// What keeps something for each thread.
pub(crate) trait ThreadHooks: Send + Sync {
    /// Makes what was kept for the thread, which ends, no one's. The registry is locked: nothing is
    /// called that is not ours, as a destructor may be.
    fn on_exit(&self, number: Number);

    /// Gives back what there is too much of then.
    fn after_exit(&self);

    /// Takes its locks, over a fork.
    fn lock_for_fork(&self);

    /// Releases what `lock_for_fork` took.
    fn unlock_after_fork(&self);

    /// Gives up what was kept for all threads but this one, in a child.
    ///
    /// # Safety
    /// There are no other threads.
    unsafe fn repair(&self, number: Number);
}

/// Caches, and whether they were forgotten.
static CACHES: Mutex<Vec<(Weak<dyn ThreadHooks>, bool)>> = Mutex::new(Vec::new());
/// Bit n: a thread has number n.
static TAKEN: Mutex<[u64; NUMBERS / 64]> = Mutex::new([1, 0, 0, 0]);

/// The mark that is given next.
static MARKS: AtomicU32 = AtomicU32::new(NUMBERS as u32);

thread_local! {
    /// 0 before the first question, and again once the thread is ending.
    static NUMBER: Cell<u8> = const { Cell::new(0) };
    /// 0 before the first question. Without a destructor, so it is there to the thread's end.
    static MARK: Cell<u32> = const { Cell::new(0) };
    static LEAVES: Leaves = const { Leaves };
}

/// Returns what the calling thread's slabs have in place of an owner while they are made or given
/// back: every thread has one, those without a number too. It is no thread's number, and no other's
/// mark: if it ever were, after four billion threads, a child that is forked meanwhile would leave
/// a lost thread's slab where it is.
pub(crate) fn mark() -> u32 {
    if MARK.get() == 0 {
        let next = |mark| if mark + 1 < RESERVE { mark + 1 } else { NUMBERS as u32 };
        MARK.set(MARKS.update(Relaxed, Relaxed, next));
    }
    MARK.get()
}

/// Has a cache told of threads that end.
pub(crate) fn register(cache: Weak<dyn ThreadHooks>) {
    CACHES.lock().push((cache, false));
}

/// Ends that: no thread is in [`ThreadHooks::on_exit`] when this returns, nor will be. Forks hold
/// the cache still, as others may be giving back slabs of it.
pub(crate) fn forget(cache: &Arc<dyn ThreadHooks>) {
    let gone = Arc::downgrade(cache);
    let mut caches = CACHES.lock();
    caches.retain(|(cache, _)| cache.strong_count() > 0);
    caches.iter_mut().filter(|(cache, _)| cache.ptr_eq(&gone)).for_each(|(_, ends)| *ends = true);
}

/// Holds the registry still over a fork, and says what is in it.
pub(crate) fn lock_for_fork(all: &mut Vec<Arc<dyn ThreadHooks>>) {
    CACHES.lock_for_fork_with(|caches| {
        all.extend(caches.iter().filter_map(|(cache, _)| cache.upgrade()))
    });
}

/// Releases what [`lock_for_fork`] took.
pub(crate) fn unlock_after_fork() {
    CACHES.unlock_after_fork();
}

/// Holds the numbers still over a fork, as the last of all.
pub(crate) fn lock_numbers_for_fork() {
    TAKEN.lock_for_fork();
}

/// Releases what [`lock_numbers_for_fork`] took.
pub(crate) fn unlock_numbers_after_fork() {
    TAKEN.unlock_after_fork();
}

/// Makes the numbers of other threads free, in a child; the calling thread's.
pub(crate) fn forget_lost() -> Number {
    let number = number_if_known();
    let place = usize::from(number.index());
    let mut taken = TAKEN.lock();
    *taken = [1, 0, 0, 0];
    taken[place / 64] |= 1 << (place % 64);
    number
}

/// Returns the calling thread's number, if it was given one by [`number`].
#[inline]
pub(crate) fn number_if_known() -> Number {
    Number::new(NUMBER.get())
}

/// Returns the calling thread's number: none when too many have one, or the thread is ending.
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

/// Dropped when its thread ends.
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
            // Without memory it tidies up when it next has reason to. (This is not the last
            // reference to the cache: a thread that ends a cache has it forgotten first.)
            if left.try_reserve(1).is_ok() {
                left.push(cache);
            }
        }
        drop(caches);
        NUMBER.set(0);
        TAKEN.lock()[place / 64] &= !(1 << (place % 64));
        // With no lock held, and no number: destructors may use caches, make and end them.
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
