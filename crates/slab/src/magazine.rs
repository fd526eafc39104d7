//! Magazines: the slabs that are a thread's own, in which it takes and frees without a lock or an atomic operation.
//!
//! ```text
//!   thread 3 --> | kept, limit | current | head --> slab <--> slab <--> ... <-- tail |   linked in the descriptors
//!                | near: descriptor | descriptor | ... |    of slabs that were freed in lately, by page number
//! ```
//! What is near may be anything that once was: whoever finds a descriptor there compares it with the address.
//!
//! # Safety
//! - M1: a thread's magazine is made and used by that thread alone: a [`Number`] can't leave its thread, and a number
//!   goes to another one under a lock. Others may look at `kept`, and set `limit` to 0, which asks for all of it.
#![allow(unsafe_code)]

use crate::Error;
use crate::layout::Shape;
use crate::slab::Slab;
use crate::sync::{Acquire, AtomicPtr, AtomicU32, Relaxed, Release};
use crate::thread::{NUMBERS, Number};
use page::{Extent, ExtentId};
use std::cell::{Cell, UnsafeCell};
use std::ptr::{NonNull, null_mut};

/// Slabs that a thread finds at once, and the binary logarithm of the bytes they are told apart by.
const NEAR: usize = 512;
const NEAR_SHIFT: u32 = 12;

/// How many free objects a thread keeps in slabs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Most free objects; above, slabs go back to the cache. 0 is no slabs for threads.
    pub limit: u32,
    /// Free objects that go back at a time, at least.
    pub batchcount: u32,
}

impl Tunables {
    /// What suits a shape: a mebibyte of objects, but no more than 4096, and at least two slabs of them.
    pub(crate) fn suiting(shape: &Shape) -> Self {
        let limit = ((1 << 20) / shape.stride).clamp(16, 4096).max(2 * shape.objects) as u32;
        Tunables { limit, batchcount: limit / 2 }
    }

    pub(crate) fn check(self) -> Result<Self, Error> {
        let Tunables { limit, batchcount } = self;
        let is_none = limit == 0 && batchcount == 0;
        let is_some = batchcount >= 1 && batchcount <= limit && limit <= 1 << 20;
        if is_none || is_some { Ok(self) } else { Err(Error::Tunables { limit, batchcount }) }
    }
}

/// The slabs of a thread.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Which of them objects are taken from.
    pub(crate) current: Option<(ExtentId, NonNull<Slab>)>,
    pub(crate) head: Option<ExtentId>,
    pub(crate) tail: Option<ExtentId>,
}

#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Magazine {
    /// Free objects in the thread's slabs.
    kept: AtomicU32,
    /// Most there may be; 0 asks for all.
    limit: AtomicU32,
    own: UnsafeCell<Own>,
    near: [Cell<Option<NonNull<Extent<Slab>>>>; NEAR],
}

impl Magazine {
    /// The thread's slabs, for the length of `work`, which does not come here again.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Own) -> R) -> R {
        // SAFETY: M1: whoever has the magazine is its thread; or no other is left (`Magazines::all`).
        work(unsafe { &mut *self.own.get() })
    }

    fn place(&self, object: NonNull<u8>) -> &Cell<Option<NonNull<Extent<Slab>>>> {
        &self.near[(object.addr().get() >> NEAR_SHIFT) % NEAR]
    }

    /// The descriptor of the slab that `object` lies in, or another one, or none.
    #[inline]
    pub(crate) fn near(&self, object: NonNull<u8>) -> Option<&Extent<Slab>> {
        // SAFETY: `set_near` was given it; descriptors stay as long as the arena, which the cache holds.
        self.place(object).get().map(|extent| unsafe { extent.as_ref() })
    }

    /// Notes the descriptor of the slab that `object` lies in.
    pub(crate) fn set_near(&self, object: NonNull<u8>, extent: &Extent<Slab>) {
        self.place(object).set(Some(NonNull::from(extent)));
    }

    #[inline]
    pub(crate) fn kept(&self) -> u32 {
        self.kept.load(Relaxed)
    }

    #[inline]
    pub(crate) fn set_kept(&self, kept: u32) {
        self.kept.store(kept, Relaxed);
    }

    /// Whether more is kept than may be.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.kept() > self.limit.load(Relaxed)
    }

    /// Whether another thread asks for all that is kept.
    pub(crate) fn is_asked(&self) -> bool {
        self.limit.load(Relaxed) == 0
    }

    pub(crate) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Relaxed);
    }
}

/// The magazines of a cache.
#[derive(Debug)]
pub(crate) struct Magazines {
    tunables: Tunables,
    /// By thread; null before a thread's first object.
    slots: Box<[AtomicPtr<Magazine>; NUMBERS]>,
}

// SAFETY: slabs may be any thread's; a magazine is its thread's alone (M1).
unsafe impl Send for Magazines {}
// SAFETY: as above.
unsafe impl Sync for Magazines {}

impl Magazines {
    pub(crate) fn new(tunables: Tunables) -> Self {
        Magazines { tunables, slots: Box::new([const { AtomicPtr::new(null_mut()) }; NUMBERS]) }
    }

    pub(crate) fn tunables(&self) -> Tunables {
        self.tunables
    }

    /// The thread's magazine, if it was made.
    #[inline]
    pub(crate) fn own(&self, number: Number) -> Option<&Magazine> {
        let slot = &self.slots[usize::from(number.place())];
        // SAFETY: null, or what `make` leaked, which stays until the magazines are dropped.
        unsafe { slot.load(Relaxed).as_ref() }
    }

    /// The thread's magazine, made if need be; none where it may have none, or there is no memory.
    pub(crate) fn make(&self, number: Number) -> Option<&Magazine> {
        if let Some(made) = self.own(number) {
            return Some(made);
        }
        if number.raw() == 0 || self.tunables.limit == 0 {
            return None;
        }
        let slot = &self.slots[usize::from(number.place())];
        let mut memory = Vec::new();
        memory.try_reserve_exact(1).ok()?;
        memory.push(Magazine {
            kept: AtomicU32::new(0),
            limit: AtomicU32::new(self.tunables.limit),
            own: UnsafeCell::default(),
            near: [const { Cell::new(None) }; NEAR],
        });
        let magazine: *mut [Magazine] = Box::into_raw(memory.into_boxed_slice());
        slot.store(magazine.cast(), Release);
        self.own(number)
    }

    /// All magazines: to look at, or, by one who knows that no thread is at work, to empty.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Magazine> {
        // SAFETY: as for `own`; made before the pointer was stored, by release.
        self.slots.iter().filter_map(|slot| unsafe { slot.load(Acquire).as_ref() })
    }

    /// Bytes that the magazines take.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + self.all().count() * size_of::<Magazine>()
    }
}

impl Drop for Magazines {
    fn drop(&mut self) {
        for slot in self.slots.iter() {
            if let Some(magazine) = NonNull::new(slot.load(Relaxed)) {
                // SAFETY: `make` leaked it, as a slice of one, and `&mut self` excludes all others.
                drop(unsafe {
                    Box::from_raw(std::ptr::slice_from_raw_parts_mut(magazine.as_ptr(), 1))
                });
            }
        }
    }
}
