//! An object cache, compared with a naive model. Objects must not overlap and must keep their
//! bytes, and counts must agree.
#![allow(unsafe_code)]

use fastrand::Rng;
use slab::{Arena, Error, Layout, Options, RawCache, Tunables};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

/// A cache, and its allocated objects by address. Each object is filled with one byte value.
pub struct Subject {
    pub cache: RawCache,
    pub size: usize,
    align: usize,
    pub live: Vec<usize>,
    stamps: BTreeMap<usize, (NonNull<u8>, u8)>,
}

// SAFETY: any thread is allowed to use the objects and the cache.
unsafe impl Send for Subject {}

impl Subject {
    pub fn new(
        arena: &Arc<Arena>,
        size: usize,
        align: usize,
        options: Options,
    ) -> Result<Self, Error> {
        let cache = RawCache::with_options(arena, size, align, options)?;
        Ok(Subject { cache, size, align, live: Vec::new(), stamps: BTreeMap::new() })
    }

    pub fn alloc(&mut self, stamp: u8, reserved: bool) -> Result<(), Error> {
        let object = if reserved { self.cache.alloc_reserved()? } else { self.cache.alloc()? };
        let address = object.addr().get();
        assert!(address.is_multiple_of(self.align));
        let before = self.stamps.range(..address).next_back();
        assert!(before.is_none_or(|(&other, _)| other + self.size <= address), "overlap");
        let after = self.stamps.range(address..).next();
        assert!(after.is_none_or(|(&other, _)| address + self.size <= other), "overlap");
        // SAFETY: the object has `size` bytes that the cache returned to this call only.
        unsafe { object.write_bytes(stamp, self.size) };
        self.stamps.insert(address, (object, stamp));
        self.live.push(address);
        Ok(())
    }

    pub fn free(&mut self, nth: usize) {
        let address = self.live.swap_remove(nth);
        let (object, stamp) = self.stamps.remove(&address).unwrap();
        // SAFETY: this is a live object of `size` bytes, filled by `alloc`. No code uses it after
        // the free. The cache refuses the second free, because no other thread uses the cache.
        unsafe {
            let bytes = std::slice::from_raw_parts(object.as_ptr(), self.size);
            assert!(bytes.iter().all(|&byte| byte == stamp), "object has foreign bytes");
            self.cache.free(object).unwrap();
            let again = self.cache.free(object);
            // The slab may have been freed with its last object.
            let named = [Error::DoubleFree { address }, Error::Foreign { address }];
            assert!(again.is_err_and(|error| named.contains(&error)));
        }
    }

    pub fn step(&mut self, stamp: u8, filling: bool, random: &mut Rng) -> Result<(), Error> {
        match random.usize(..100) {
            0 => drop(self.cache.shrink()),
            1 if self.size > 1 => self.misuse(random),
            share if self.live.is_empty() || (share < 75) == filling => {
                self.alloc(stamp, share % 4 == 0)?;
            }
            _ => self.free(random.usize(..self.live.len())),
        }
        Ok(())
    }

    /// Asserts that the cache refuses to free addresses at which no object begins.
    fn misuse(&self, random: &mut Rng) {
        if let Some(&address) = random.choice(&self.live) {
            let (object, _) = self.stamps[&address];
            let within = object.map_addr(|at| at.saturating_add(1 + random.usize(..self.size - 1)));
            let address = within.addr().get();
            // SAFETY: no object begins at the address, so the cache refuses the free and changes no
            // memory.
            assert_eq!(unsafe { self.cache.free(within) }, Err(Error::Foreign { address }));
        }
    }

    pub fn check(&self) {
        self.cache.check();
        let stat = self.cache.stat();
        assert_eq!(stat.active_objects, self.live.len());
        assert!(stat.objects == stat.slabs * self.cache.shape().objects);
        let kept = stat.active_objects + stat.in_magazines + stat.reserved;
        assert!(kept <= stat.objects, "{stat:?}");
    }
}

pub fn options(layout: Layout, limit: u32) -> Options {
    let tunables = Tunables { limit, batchcount: limit.div_ceil(2) };
    Options { layout, reserve: 3, tunables: Some(tunables), ..Options::default() }
}
