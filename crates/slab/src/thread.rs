//! Numbers of threads: small, and used again when a thread has ended.
//!
//! Locks: `CACHES` is taken before any cache's, `TAKEN` last. Under none of them is anything called that is a user's:
//! a destructor may end a cache, which takes `CACHES`.

use crate::bits::RESERVE;
use crate::sync::Mutex;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Numbers there are, 0 among them, which is no thread's. Threads beyond have none, and no magazines.
pub(crate) const NUMBERS: usize = 1 << u8::BITS;

/// The calling thread's number. It can't be sent, so whoever has it is that thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    /// From 1 on; 0 is none.
    number: u8,
    here: PhantomData<*const ()>,
}

impl Number {
    /// No thread's.
    pub(crate) const NONE: Number = Number { number: 0, here: PhantomData };

    /// The place of the thread's things among those of all threads; 0 is no thread's.
    #[inline]
    pub(crate) fn place(self) -> u8 {
        self.number
    }

    /// Whether it is this thread that `owner` says; 0 is no one.
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
pub(crate) trait Keeper: Send + Sync {
    /// Makes what was kept for the thread, which ends, no one's. The registry is locked: nothing is called that is not
    /// ours, as a destructor may be.
    fn leave(&self, number: Number);

    /// Gives back what there is too much of then.
    fn tidy(&self);

    /// Takes its locks, over a fork.
    fn hold(&self);

    /// Releases what `hold` took.
    fn let_go(&self);

    /// Gives up what was kept for all threads but this one, in a child.
    fn mend(&self, number: Number);
}

/// Keepers, and whether they were forgotten.
static CACHES: Mutex<Vec<(Weak<dyn Keeper>, bool)>> = Mutex::new(Vec::new());
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

/// What the calling thread's slabs have in place of an owner while they are made or given back: every thread has one, those
/// without a number too. It is no thread's number, and no other's mark: if it ever were, after four billion threads, a
/// child that is forked meanwhile would leave a lost thread's slab where it is.
pub(crate) fn mark() -> u32 {
    if MARK.get() == 0 {
        let next = |mark| if mark + 1 < RESERVE { mark + 1 } else { NUMBERS as u32 };
        MARK.set(MARKS.update(Relaxed, Relaxed, next));
    }
    MARK.get()
}

/// Has a keeper told of threads that end.
pub(crate) fn register(keeper: Weak<dyn Keeper>) {
    CACHES.lock().push((keeper, false));
}

/// Ends that: no thread is in [`Keeper::leave`] when this returns, nor will be. Forks hold the keeper still, as others may
/// be giving back slabs of it.
pub(crate) fn forget(keeper: &Arc<dyn Keeper>) {
    let gone = Arc::downgrade(keeper);
    let mut caches = CACHES.lock();
    caches.retain(|(keeper, _)| keeper.strong_count() > 0);
    caches.iter_mut().filter(|(keeper, _)| keeper.ptr_eq(&gone)).for_each(|(_, ends)| *ends = true);
}

/// Holds the registry still over a fork, and says what is in it.
pub(crate) fn hold(keepers: &mut Vec<Arc<dyn Keeper>>) {
    CACHES.hold_with(|caches| {
        keepers.extend(caches.iter().filter_map(|(keeper, _)| keeper.upgrade()))
    });
}

/// Releases what [`hold`] took.
pub(crate) fn let_go() {
    CACHES.let_go();
}

/// Holds the numbers still over a fork, as the last of all.
pub(crate) fn hold_numbers() {
    TAKEN.hold();
}

/// Releases what [`hold_numbers`] took.
pub(crate) fn let_go_numbers() {
    TAKEN.let_go();
}

/// Makes the numbers of other threads free, in a child; the calling thread's.
pub(crate) fn forget_lost() -> Number {
    let number = number_if_known();
    let place = usize::from(number.place());
    let mut taken = TAKEN.lock();
    *taken = [1, 0, 0, 0];
    taken[place / 64] |= 1 << (place % 64);
    number
}

/// The calling thread's number, if it was given one by [`number`].
#[inline]
pub(crate) fn number_if_known() -> Number {
    Number::new(NUMBER.get())
}

/// The calling thread's number: none when too many have one, or the thread is ending.
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
        let place = usize::from(number.place());
        let mut left = Vec::new();
        let caches = CACHES.lock();
        let kept = caches.iter().filter(|(_, is_forgotten)| !is_forgotten);
        for keeper in kept.filter_map(|(keeper, _)| keeper.upgrade()) {
            keeper.leave(number);
            // Without memory it tidies up when it next has reason to. (This is not the last of the keeper: who ends it
            // has it forgotten first.)
            if left.try_reserve(1).is_ok() {
                left.push(keeper);
            }
        }
        drop(caches);
        NUMBER.set(0);
        TAKEN.lock()[place / 64] &= !(1 << (place % 64));
        // With no lock held, and no number: destructors may use caches, make and end them.
        left.into_iter().for_each(|keeper| keeper.tidy());
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
        let mine = number().place();
        for _ in 0..NUMBERS * 2 {
            let other = std::thread::spawn(|| number().place()).join().unwrap();
            assert!(other != 0 && other != mine);
        }
    }
}
