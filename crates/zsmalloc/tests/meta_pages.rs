//! Tests that pages without objects are returned to the system, whichever thread frees the objects.
//! Tests that a cache is dense after its objects were moved.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use page::page_size;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use testkit::child::in_child;
use zsmalloc::meta::{Cache, CacheStat, MetadataArena};

fn cache_of(size: usize) -> (Arc<MetadataArena>, Cache) {
    let arena = MetadataArena::new(page::Config::default()).unwrap();
    let cache = Cache::new(&arena, size, 8).unwrap();
    (arena, cache)
}

/// Returns whether a page has memory: bit 63 (present) or 62 (swapped) of its pagemap entry is set.
fn is_resident(pagemap: &std::fs::File, address: usize) -> bool {
    let mut entry = [0; 8];
    pagemap.read_exact_at(&mut entry, (address / page_size() * 8) as u64).unwrap();
    u64::from_ne_bytes(entry) >> 62 != 0
}

fn write(object: NonNull<u8>, stamp: u64) {
    // SAFETY: the object has at least 8 bytes, is aligned to 8, and only the caller uses it.
    unsafe { object.cast().write(stamp) }
}

fn read(object: NonNull<u8>) -> u64 {
    // SAFETY: the requirements of `write` apply, and `write` has initialised the object.
    unsafe { object.cast().read() }
}

#[test]
fn freed_pages_are_really_given_back() {
    let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
    for size in [64, 1000, 3072, 5000] {
        let (arena, cache) = cache_of(size);
        let mut objects: Vec<_> = (0..5000).map(|_| cache.alloc().unwrap()).collect();
        objects.iter().for_each(|&object| write(object, 1));
        let mut pages: Vec<usize> =
            objects.iter().map(|object| object.addr().get() / page_size() * page_size()).collect();
        pages.sort();
        pages.dedup();
        let resident = || pages.iter().filter(|&&page| is_resident(&pagemap, page)).count();
        assert_eq!(resident(), pages.len());
        Rng::with_seed(testkit::seed(size as u64)).shuffle(&mut objects);
        let kept = objects.split_off(4950);
        for object in objects {
            // SAFETY: the object is not used again.
            unsafe { cache.free(object).unwrap() };
        }
        cache.check();
        assert!(resident() <= cache.stat().pages, "{} of {:?}", resident(), cache.stat());
        cache.shrink();
        assert!(cache.stat().pages <= (size / page_size() + 2) * kept.len(), "{:?}", cache.stat());
        assert!(resident() <= cache.stat().pages);
        arena.check();
    }
}

#[test]
fn locked_pages_stay_and_are_counted() {
    let (arena, cache) = cache_of(page_size());
    let objects: Vec<_> = (0..8).map(|_| cache.alloc().unwrap()).collect();
    let (first, bytes) = (objects[0].as_ptr().cast(), 8 * page_size());
    // SAFETY: the eight objects lie on eight consecutive pages.
    if unsafe { rustix::mm::mlock(first, bytes) }.is_err() {
        return; // the process is not allowed to lock this number of bytes
    }
    for object in objects {
        // SAFETY: the object is not used again.
        unsafe { cache.free(object).unwrap() };
    }
    assert_eq!(cache.shrink(), 0);
    assert_eq!((cache.stat().pages, cache.stat().retained), (8, 8));
    arena.check();
    // SAFETY: the eight objects lie on eight consecutive pages.
    unsafe { rustix::mm::munlock(first, bytes) }.unwrap();
    assert_eq!(cache.shrink(), 8);
    assert_eq!(cache.stat(), CacheStat::default());
    arena.check();
}

#[test]
fn moving_objects_down_makes_a_cache_dense() {
    for size in [64, 200, 1000, 3072] {
        let (arena, cache) = cache_of(size);
        let mut random = Rng::with_seed(testkit::seed(size as u64));
        let mut objects: Vec<_> = (0..100_000u64).map(|n| (cache.alloc().unwrap(), n)).collect();
        objects.iter().for_each(|&(object, n)| write(object, n));
        random.shuffle(&mut objects);
        for (object, _) in objects.split_off(2000) {
            // SAFETY: the object is not used again.
            unsafe { cache.free(object).unwrap() };
        }
        for (object, n) in &mut objects {
            if let Some(lower) = cache.alloc_before(*object) {
                write(lower, read(*object));
                // SAFETY: only this vector refers to the object, and the vector now refers to the
                // copy instead.
                unsafe { cache.free(std::mem::replace(object, lower)).unwrap() };
            }
            assert_eq!(read(*object), *n);
        }
        cache.check();
        cache.shrink();
        let (bytes, pages) = (objects.len() * size, cache.stat().pages);
        let packed = bytes.div_ceil(page_size());
        assert!(pages <= packed + packed / 32 + 2, "{size}: {pages} pages, {packed} would do");
        arena.check();
        // The limit allows a few pages for each of these: sections, descriptors, their bitmaps,
        // page maps, and tables of addresses.
        let metadata = arena.bytes() - pages * page_size();
        assert!(metadata <= 12 * page_size() + bytes / 100, "{size}: {metadata} bytes of metadata");
    }
}

/// Performs the random operations of one thread of the stress test.
fn stress(cache: &Cache, shared: &Mutex<Vec<(usize, u64)>>, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut own: Vec<(NonNull<u8>, u64)> = Vec::new();
    let free = |(object, stamp): (NonNull<u8>, u64)| {
        assert_eq!(read(object), stamp);
        // SAFETY: the object was removed from the only vector that refers to it.
        unsafe { cache.free(object).unwrap() };
    };
    for step in 0..20_000 {
        let filling = step / 4000 % 2 == 0;
        let nth = random.usize(..own.len().max(1));
        match random.u32(..100) {
            0 => drop(cache.shrink()),
            1..15 if !own.is_empty() => {
                let (object, stamp) = own[nth];
                if let Some(lower) = cache.alloc_before(object) {
                    write(lower, stamp);
                    own.push((lower, stamp));
                    free(own.swap_remove(nth));
                }
            }
            // A thread other than the allocating thread can free the object.
            15..25 if !own.is_empty() => {
                let (object, stamp) = own.swap_remove(nth);
                shared.lock().unwrap().push((object.expose_provenance().get(), stamp));
            }
            25..35 => {
                let theirs = shared.lock().unwrap().pop();
                if let Some((address, stamp)) = theirs {
                    let object = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
                    free((object.unwrap(), stamp));
                }
            }
            share if !own.is_empty() && (share < 75) != filling => free(own.swap_remove(nth)),
            _ => {
                let (object, stamp) = (cache.alloc().unwrap(), random.u64(..));
                write(object, stamp);
                own.push((object, stamp));
            }
        }
    }
    own.into_iter().for_each(free);
}

#[test]
fn threads_share_a_cache() {
    for size in [16, 200, 3000] {
        let (arena, cache) = cache_of(size);
        let shared = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let (cache, shared) = (&cache, &shared);
            let seed = testkit::seed(1);
            (0..4).for_each(|nth| drop(scope.spawn(move || stress(cache, shared, seed + nth))));
        });
        cache.check();
        arena.check();
        for (address, _) in shared.into_inner().unwrap() {
            let object = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap();
            // SAFETY: the threads have ended, and no other reference to the object exists.
            unsafe { cache.free(object).unwrap() };
        }
        cache.check();
        cache.shrink();
        assert_eq!(cache.stat(), CacheStat::default());
        arena.check();
    }
}

/// A child inherits the objects, even if the arena's configuration excludes children.
#[test]
fn a_child_has_the_objects_whatever_was_asked_for() {
    let config = page::Config { in_children: false, ..page::Config::default() };
    let cache = Cache::new(&MetadataArena::new(config).unwrap(), 48, 16).unwrap();
    let object = cache.alloc().unwrap();
    // SAFETY: the object of 48 bytes was just allocated.
    unsafe { object.write_bytes(7, 48) };
    in_child(|| {
        // SAFETY: the object was written above, and no other thread uses it.
        assert_eq!(unsafe { object.cast::<[u8; 48]>().read() }, [7; 48]);
    });
}
