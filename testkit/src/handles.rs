//! A pool under load. The handles are in bins, which any thread can fill, read, write and empty.

use crate::contents::stamped;
use crate::load::{Sizes, Subject};
use fastrand::Rng;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zsmalloc::{Handle, Pool};

struct Object {
    handle: Handle,
    bytes: Vec<u8>,
}

/// Bins, each of which contains an object or is empty.
pub struct Handles {
    pub pool: Pool,
    bins: Vec<Mutex<Option<Object>>>,
    versions: AtomicU64,
}

impl Handles {
    pub fn new(pool: Pool, bins: usize) -> Self {
        let bins = (0..bins).map(|_| Mutex::default()).collect();
        Handles { pool, bins, versions: AtomicU64::new(0) }
    }

    fn bin(&self, nth: usize) -> MutexGuard<'_, Option<Object>> {
        self.bins[nth].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self, len: usize) -> Vec<u8> {
        stamped(self.versions.fetch_add(1, Relaxed), len)
    }

    fn store(&self, bin: &mut Option<Object>, len: usize) {
        let bytes = self.fresh(len);
        match self.pool.store(&bytes) {
            Ok(handle) => *bin = Some(Object { handle, bytes }),
            Err(error) => assert!(error.is_limit(), "{error}"),
        }
    }

    fn free(&self, bin: &mut Option<Object>) {
        if let Some(object) = bin.take() {
            self.pool.free(object.handle).unwrap();
        }
    }

    /// Compares an object's contents. The contents must not change while the object is pinned, even
    /// if other threads move objects.
    fn compare(&self, object: &Object, moment: u32) {
        let read = self.pool.read(&object.handle).unwrap();
        assert!(*read == object.bytes, "{:?}", object.handle);
        (0..moment).for_each(|_| std::thread::yield_now());
        assert!(*read == object.bytes, "{:?} changed while it was read", object.handle);
    }

    /// Frees all objects. All pages and zspages must be freed.
    pub fn free_all(&self) {
        (0..self.bins.len()).for_each(|nth| self.free(&mut self.bin(nth)));
        self.pool.trim();
        self.pool.check();
        assert!(self.pool.is_empty());
        assert_eq!(self.pool.pages().used(), 0, "pages left after all was freed");
    }
}

impl Subject for Handles {
    fn largest(&self) -> usize {
        self.pool.largest()
    }

    fn operate(&self, rng: &mut Rng, sizes: &Sizes, filled: usize) {
        let nth = rng.usize(..self.bins.len());
        let mut bin = self.bin(nth);
        if nth * 1000 >= filled * self.bins.len() {
            return self.free(&mut bin);
        }
        match (&mut *bin, rng.u32(..8)) {
            (None, _) => self.store(&mut bin, sizes.pick(rng)),
            (Some(object), 0..4) => self.compare(object, rng.u32(..4)),
            (Some(object), 4) => {
                let new = self.fresh(rng.usize(..=object.bytes.len()));
                self.pool.write(&object.handle, &new).unwrap();
                object.bytes[..new.len()].copy_from_slice(&new);
            }
            (Some(_), _) => {
                self.free(&mut bin);
                self.store(&mut bin, sizes.pick(rng));
            }
        }
    }

    fn disturb(&self, rng: &mut Rng) {
        match rng.u32(..8) {
            0..3 => drop(self.pool.compact()),
            3..6 => drop(self.pool.shrink(rng.usize(..1 << 18))),
            6 => drop(self.pool.trim()),
            _ => assert!(self.pool.bytes() >= self.pool.classes().iter().count()),
        }
    }

    fn pages_used(&self) -> usize {
        self.pool.pages().used()
    }

    fn set_limit(&self, pages: Option<usize>) {
        self.pool.pages().set_limit(pages);
    }

    fn moved(&self) -> (u64, u64) {
        let stat = self.pool.compaction_stat();
        (stat.moved_objects, stat.plans)
    }

    fn check(&self) {
        self.pool.check();
        for nth in 0..self.bins.len() {
            self.bin(nth).iter().for_each(|object| self.compare(object, 0));
        }
    }
}
