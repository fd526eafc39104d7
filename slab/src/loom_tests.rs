//! Models of concurrent operations on one slab's bits. The slab's thread allocates, frees, orphans
//! and drains while other threads free remotely. In other models, an extent passes from one cache
//! to another while a thread that freed an object remotely drains the slab.
//!
//! The models imitate the depot's lock and count, and the rule on access to a slab (sl-K3). They
//! test the real code of the bits and the tags.
#![allow(unsafe_code)]

use crate::bits::{self, Bits, Freed, NO_ONE, Owner, Word};
use crate::cache_id::CacheId;
use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const MINE: u32 = 1;

/// A slab of a few live objects, and the lock of its cache. The lock guards the number of drained
/// objects.
struct Slab {
    live: Vec<Word>,
    remote: Vec<Word>,
    owner: Owner,
    found: Mutex<usize>,
}

impl Slab {
    fn new(objects: usize) -> Arc<Self> {
        let live = (1 << objects) - 1;
        Arc::new(Slab {
            live: vec![Word::new(live)],
            remote: vec![Word::new(0)],
            owner: Owner::new(MINE),
            found: Mutex::new(0),
        })
    }

    fn bits(&self) -> Bits<'_> {
        Bits { live: &self.live, remote: &self.remote, owner: &self.owner }
    }

    /// Acts as the slab's thread when no object is free: drains the slab, and gives the slab up if
    /// no object was drained.
    fn drain_or_orphan(&self) -> usize {
        let mut found = 0;
        self.bits().drain_remote(|_| found += 1);
        if found == 0 {
            let mut all = self.found.lock().unwrap();
            self.bits().orphan();
            self.bits().drain_remote(|_| *all += 1);
        }
        found
    }

    /// Frees an object like a thread that does not own the slab. Returns whether the object was
    /// live.
    fn free(&self, index: usize) -> bool {
        loop {
            if self.owner.load(Relaxed) == NO_ONE {
                let mut all = self.found.lock().unwrap();
                if self.owner.load(Relaxed) == NO_ONE {
                    let freed = self.bits().free(index);
                    *all += usize::from(freed);
                    return freed;
                }
                continue;
            }
            return match self.bits().free_remotely(index) {
                Freed::Deferred => true,
                Freed::DoubleFree => false,
                Freed::Orphan => {
                    let mut all = self.found.lock().unwrap();
                    if self.owner.load(Relaxed) == NO_ONE {
                        self.bits().drain_remote(|_| *all += 1);
                    }
                    true
                }
            };
        }
    }

    fn found(&self) -> usize {
        *self.found.lock().unwrap()
    }
}

fn model(work: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(if std::env::var_os("UZRAM_LONG").is_some() { 4 } else { 3 });
    builder.check(work);
}

/// sl-B1: one thread frees an object while another thread gives up the slab. Exactly one of the two
/// threads finds the object.
#[test]
fn loom_no_remote_free_is_forgotten() {
    model(|| {
        let slab = Slab::new(2);
        let others: Vec<_> = (0..2)
            .map(|index| {
                let slab = slab.clone();
                thread::spawn(move || assert!(slab.free(index)))
            })
            .collect();
        let mut found = slab.drain_or_orphan();
        others.into_iter().for_each(|other| other.join().unwrap());
        if slab.owner.load(Relaxed) == MINE {
            slab.bits().drain_remote(|_| found += 1);
        }
        assert_eq!(found + slab.found(), 2);
        assert_eq!((slab.live[0].load(Relaxed), slab.remote[0].load(Relaxed)), (0, 0));
    });
}

/// sl-B2, sl-B3: two threads free one object while the slab's thread drains, and frees other
/// objects. The object is freed exactly once, and at least one of the two frees succeeds.
#[test]
fn loom_two_frees_free_once() {
    model(|| {
        let slab = Slab::new(2);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let slab = slab.clone();
                thread::spawn(move || slab.free(0))
            })
            .collect();
        assert!(slab.bits().free(1));
        let mut found = slab.drain_or_orphan();
        let freed = others.into_iter().map(|other| other.join().unwrap());
        let freed = freed.filter(|&freed| freed).count();
        if slab.owner.load(Relaxed) == MINE {
            slab.bits().drain_remote(|_| found += 1);
        }
        assert_eq!(found + slab.found(), 1, "it is freed once");
        assert!(freed >= 1, "who freed it is not refused");
        assert_eq!((slab.live[0].load(Relaxed), slab.remote[0].load(Relaxed)), (0, 0));
    });
}

/// sl-B3: a second free does not affect the next user of the object, and the first free is never
/// rejected.
#[test]
fn loom_a_second_free_changes_nothing() {
    model(|| {
        let slab = Slab::new(1);
        let other = {
            let slab = slab.clone();
            thread::spawn(move || (slab.free(0), slab.free(0)))
        };
        let mut found = 0;
        slab.bits().drain_remote(|_| found += 1);
        let (first, _) = other.join().unwrap();
        assert!(first);
        slab.bits().drain_remote(|_| found += 1);
        assert_eq!((found, slab.remote[0].load(Relaxed)), (1, 0));
    });
}

/// sl-B3: a second free that completes before the object is allocated again does not affect the
/// allocation, in any interleaving.
#[test]
fn loom_a_late_bit_is_never_given_out() {
    model(|| {
        let slab = Slab::new(1);
        let over = Arc::new(AtomicBool::new(false));
        let other = {
            let (slab, over) = (slab.clone(), over.clone());
            thread::spawn(move || {
                assert!(slab.free(0));
                slab.free(0);
                over.store(true, Release);
            })
        };
        let mut found = 0;
        slab.bits().drain_remote(|_| found += 1);
        if over.load(Acquire) {
            slab.bits().drain_remote(|_| found += 1);
            // An allocation first tries the current word, and then searches the slab.
            let [live, remote] = [&slab.live[0], &slab.remote[0]];
            let taken = bits::alloc(live, remote).or_else(|| slab.bits().alloc_from(0));
            assert_eq!((found, taken), (1, Some(0)));
            slab.bits().drain_remote(|_| found += 1);
            assert_eq!(found, 1, "it is its new user's");
            assert!(bits::free(live, remote, 0), "who frees it once");
        }
        other.join().unwrap();
    });
}

/// The next user of an object sees the previous user's writes to the object.
#[test]
fn loom_what_was_written_comes_before() {
    model(|| {
        let slab = Slab::new(1);
        let bytes = Arc::new(loom::cell::UnsafeCell::new(0));
        let other = {
            let (slab, bytes) = (slab.clone(), bytes.clone());
            thread::spawn(move || {
                // SAFETY: the object belongs to this thread until this thread frees it.
                bytes.with_mut(|bytes| unsafe { *bytes = 7 });
                assert!(slab.free(0));
            })
        };
        let mut found = 0;
        slab.bits().drain_remote(|_| found += 1);
        if found == 1 {
            assert_eq!(slab.bits().alloc_from(0), Some(0));
            // SAFETY: the other thread freed the object, which belongs to this thread now.
            assert_eq!(bytes.with(|bytes| unsafe { *bytes }), 7);
        }
        other.join().unwrap();
    });
}

/// An extent that is a slab of one of two caches, and the locks of the two caches. A thread
/// accesses the slab's memory only through the cell, so loom detects concurrent accesses.
struct Place {
    tag: Owner,
    is_listed: Owner,
    cell: loom::cell::UnsafeCell<CacheId>,
    locks: [Mutex<()>; 2],
}

fn id(cache: usize) -> CacheId {
    CacheId::new(cache as u32)
}

impl Place {
    /// Returns a slab in a list of the first cache.
    fn new() -> Arc<Self> {
        let tag = Owner::new(id(0).attached_tag());
        let cell = loom::cell::UnsafeCell::new(id(0));
        let locks = [Mutex::new(()), Mutex::new(())];
        Arc::new(Place { tag, is_listed: Owner::new(1), cell, locks })
    }

    fn work(&self, cache: usize) {
        // SAFETY: the model checks that the caller has exclusive access to the cell.
        self.cell.with_mut(|id_of| unsafe { assert_eq!(*id_of, id(cache)) });
    }

    /// Unlinks the slab from its cache, like a thread that reclaims the slab.
    fn unlink(&self, cache: usize) {
        let _lock = self.locks[cache].lock().unwrap();
        self.work(cache);
        self.is_listed.store(0, Relaxed);
        self.tag.store(id(cache).tag(), Relaxed);
    }

    /// Creates a slab in the extent, like a thread that uses cache `cache`.
    fn make(&self, cache: usize) {
        self.tag.store(id(cache).tag(), Relaxed);
        // SAFETY: the model checks that the caller has exclusive access to the cell.
        self.cell.with_mut(|id_of| unsafe { *id_of = id(cache) });
        let _lock = self.locks[cache].lock().unwrap();
        self.work(cache);
        self.tag.store(id(cache).attached_tag(), Relaxed);
        self.is_listed.store(1, Relaxed);
    }

    /// Drains the slab. Acts like a thread that has freed an object of the first cache remotely,
    /// and has found that the slab has no owner.
    fn drain(&self) {
        let _lock = self.locks[0].lock().unwrap();
        if self.tag.load(Relaxed) == id(0).attached_tag() && self.is_listed.load(Relaxed) != 0 {
            self.work(0);
        }
    }
}

/// sl-H2: a thread may drain a slab after the slab was reclaimed. The thread then accesses no slab
/// of another cache, and no slab under construction.
#[test]
fn loom_a_late_drain_keeps_to_its_own_slabs() {
    model(|| {
        let place = Place::new();
        let late = {
            let place = place.clone();
            thread::spawn(move || place.drain())
        };
        place.unlink(0);
        place.make(1);
        place.unlink(1);
        place.make(0);
        late.join().unwrap();
        place.drain();
    });
}
