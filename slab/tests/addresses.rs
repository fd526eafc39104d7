//! Tests that objects are found by their addresses, at any place of their slabs.
#![allow(unsafe_code, clippy::unwrap_used)]

use slab::{Arena, RawCache};
use std::ptr::NonNull;
use std::sync::Arc;
use testkit::supply::SmallSegments;

fn fill(cache: &RawCache, objects: usize) -> Vec<NonNull<u8>> {
    (0..objects).map(|_| cache.alloc().unwrap()).collect()
}

/// Frees all `objects`. Returns the number of rejected frees.
fn free(cache: &RawCache, objects: Vec<NonNull<u8>>) -> usize {
    // SAFETY: the objects belong to the cache, and no code uses them again.
    let refused = objects.into_iter().filter(|&object| unsafe { cache.free(object) }.is_err());
    refused.count()
}

fn end(arena: &Arena, cache: RawCache) {
    assert_eq!((cache.stat().refused, cache.stat().active_objects), (0, 0));
    cache.check();
    cache.destroy().unwrap();
    arena.check();
    assert_eq!(arena.budget().used(), 0);
}

/// Segments of 64, 128 and 256 MiB are unmapped, and mapped again at the same addresses as parts of
/// other sections.
#[test]
fn segments_come_back_as_other_sections() {
    let arena = Arena::new(page::Config::default()).unwrap();
    let cache = RawCache::new(&arena, 4096, 8).unwrap();
    for round in 0..3 {
        let objects = fill(&cache, (448 << 20) / 4096);
        assert_eq!(free(&cache, objects), 0, "in round {round}");
        cache.shrink();
        arena.check();
    }
    end(&arena, cache);
}

/// Another thread, which has looked up the earlier sections, frees objects in the new sections.
#[test]
fn segments_come_back_for_other_threads_too() {
    let arena = Arena::new(page::Config::default()).unwrap();
    let cache = RawCache::new(&arena, 65_536, 8).unwrap();
    /// Objects that are sent to another thread.
    struct Sent(Vec<NonNull<u8>>);
    // SAFETY: the other thread frees the objects, and this thread does not use them any more.
    unsafe impl Send for Sent {}
    for round in 0..4 {
        let sent = Sent(fill(&cache, (320 << 20) / 65_536));
        let refused = std::thread::scope(|scope| {
            let cache = &cache;
            let other = move || {
                let all = sent;
                free(cache, all.0)
            };
            scope.spawn(other).join().unwrap()
        });
        assert_eq!(refused, 0, "in round {round}");
        cache.shrink();
        cache.check();
    }
    end(&arena, cache);
}

/// Tests more sections than the first tables of the address index can contain: 2,049 MiB in
/// segments of 1 MiB.
#[test]
fn small_segments_without_number() {
    let supply = Arc::new(SmallSegments::default());
    let config = page::Config { supply: Some(supply), ..page::Config::default() };
    let arena = Arena::new(config).unwrap();
    let cache = RawCache::new(&arena, 65_536, 8).unwrap();
    let objects = fill(&cache, 2049 * ((1 << 20) / 65_536));
    assert_eq!(free(&cache, objects), 0);
    cache.shrink();
    end(&arena, cache);
}
