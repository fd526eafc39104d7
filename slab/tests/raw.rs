//! Tests the untyped cache through addresses, as C would use it. Every misuse must return an errno,
//! also in release builds.
#![allow(unsafe_code, clippy::unwrap_used)]

use slab::{Arena, Debug, Error, Layout, Options, RawCache, Tunables};
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::Arc;

const INVAL: i32 = 22;
const NOMEM: i32 = 12;

fn arena() -> Arc<Arena> {
    Arena::new(page::Config::default()).unwrap()
}

/// Returns caches of every kind: with thread slabs and without, with red zones and without.
fn caches(arena: &Arc<Arena>, size: usize) -> Vec<RawCache> {
    let none = Some(Tunables { limit: 0, batchcount: 0 });
    let kinds = [(None, Debug::Off), (none, Debug::Off), (None, Debug::On)];
    let all = Layout::ALL.into_iter().flat_map(|layout| kinds.map(|kind| (layout, kind)));
    all.map(|(layout, (tunables, debug))| {
        let options = Options { layout, tunables, debug, ..Options::default() };
        RawCache::with_options(arena, size, 8, options).unwrap()
    })
    .collect()
}

fn at(address: usize) -> NonNull<u8> {
    NonNull::without_provenance(NonZero::new(address).unwrap())
}

/// Frees an object, expects that the cache rejects it, and returns the error.
fn refused(cache: &RawCache, object: NonNull<u8>) -> Error {
    // SAFETY: the cache rejects every address that is passed here, and no code uses the object.
    let error = unsafe { cache.free(object) }.unwrap_err();
    assert_eq!(error.errno(), INVAL, "{error}");
    error
}

#[test]
fn what_is_no_object_is_refused() {
    let arena = arena();
    let caches = caches(&arena, 40);
    let elsewhere = [0u64; 8];
    for cache in &caches {
        let objects: Vec<_> = (0..500).map(|_| cache.alloc().unwrap()).collect();
        let other = caches.iter().find(|other| !std::ptr::eq(*other, cache)).unwrap();
        let theirs = other.alloc().unwrap();
        let (first, last) = (objects.iter().min().unwrap(), objects.iter().max().unwrap());
        let [first, last] = [first, last].map(|object| object.addr().get());
        // Tries addresses near null, and addresses in a slab at which no object begins. Null itself
        // can't be a `NonNull`.
        let near_null =
            [1, 8, 40, 4096, 1 << 20, usize::MAX, usize::MAX - 39, 1 << 63, first | 1 << 63];
        let beside = [first - 40, first - 1, first ^ 1 << 40, last + (1 << 16), first + (4 << 20)];
        let inside = objects
            .iter()
            .flat_map(|object| [1, 7, 8, 39].map(|within| object.addr().get() + within));
        let foreign = [elsewhere.as_ptr().addr(), theirs.addr().get()];
        let all = near_null.into_iter().chain(beside).chain(foreign).chain(inside);
        for address in all.filter(|&address| !objects.contains(&at(address))) {
            let error = refused(cache, at(address));
            // The object that was allocated first might not be the slab's first object, so a free
            // object can begin at the address.
            let is_free = error == Error::DoubleFree { address } && beside.contains(&address);
            assert!(is_free || error == Error::Foreign { address }, "{error} for {address:#x}");
        }
        cache.check();
        assert_eq!(cache.stat().active_objects, objects.len());
        for object in objects {
            // SAFETY: no code uses the object again.
            unsafe { cache.free(object).unwrap() };
        }
        // SAFETY: no code uses the object again.
        unsafe { other.free(theirs).unwrap() };
    }
    caches.into_iter().for_each(|cache| cache.destroy().unwrap());
}

#[test]
fn a_second_free_is_refused_wherever_the_first_was() {
    let arena = arena();
    for cache in caches(&arena, 40) {
        let objects: Vec<_> = (0..500).map(|_| cache.alloc().unwrap().addr().get()).collect();
        let free = |address: usize| {
            // SAFETY: the object is not used again.
            unsafe { cache.free(at(address)) }
        };
        let twice =
            |address| assert_eq!(refused(&cache, at(address)), Error::DoubleFree { address });
        // Half of the objects remain live, so that no slab is reclaimed.
        let every_fourth = |from: usize| objects.iter().copied().skip(from).step_by(4);
        for address in every_fourth(0) {
            free(address).unwrap();
            twice(address);
        }
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                every_fourth(0).for_each(twice);
                for address in every_fourth(1) {
                    free(address).unwrap();
                    twice(address);
                }
            });
            other.join().unwrap();
        });
        every_fourth(0).chain(every_fourth(1)).for_each(twice);
        cache.check();
        // The new allocations return only freed objects, and each freed object only once.
        let mut again: Vec<_> = (0..250).map(|_| cache.alloc().unwrap().addr().get()).collect();
        again.extend(every_fourth(2).chain(every_fourth(3)));
        again.sort_unstable();
        assert!(again.is_sorted_by(|a, b| a + 40 <= *b));
        again.into_iter().for_each(|address| free(address).unwrap());
        cache.destroy().unwrap();
    }
}

#[test]
fn all_that_c_needs_is_there() {
    let arena = Arena::new(page::Config { limit: Some(60), ..page::Config::default() }).unwrap();
    let options = Options { reserve: 2, ..Options::default() };
    let cache = RawCache::with_options(&arena, 1001, 8, options).unwrap();
    assert_eq!((cache.size(), cache.shape().stride), (1001, 1008));
    let mut objects = Vec::new();
    let refused = loop {
        match cache.alloc() {
            Ok(object) => objects.push(object),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.errno(), NOMEM, "{refused}");
    objects.push(cache.alloc_reserved().unwrap());
    for object in objects {
        // SAFETY: no code uses the object again.
        unsafe { cache.free(object).unwrap() };
    }
    assert!(cache.shrink() > 0);
    assert_eq!(RawCache::new(&arena, 0, 8).map(drop).unwrap_err().errno(), INVAL);
    let kept = cache.alloc().unwrap();
    let leak = cache.destroy().unwrap_err();
    assert_eq!(leak.objects, [kept]);
}
