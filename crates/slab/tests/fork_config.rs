//! Objects are memory that is given out: a child has it, whatever the arena was asked for.
#![allow(unsafe_code, clippy::unwrap_used)]

use slab::packed::RawCache;
use slab::{Arena, Cache, packed};
use testkit::child::in_child;

#[test]
fn a_child_has_the_objects_whatever_was_asked_for() {
    let config = page::Config { in_children: false, ..page::Config::default() };
    let cache = Cache::<[u64; 6]>::new(&Arena::new(config.clone()).unwrap(), "numbers");
    let cache = cache.unwrap();
    let objects: Vec<_> = (0..1000).map(|nth| cache.alloc([nth; 6]).unwrap()).collect();
    let packed = RawCache::new(&packed::Arena::new(config).unwrap(), 48, 16).unwrap();
    let place = packed.alloc().unwrap();
    // SAFETY: an object of 48 bytes that was just taken.
    unsafe { place.write_bytes(7, 48) };
    in_child(|| {
        assert!(objects.iter().zip(0..).all(|(object, nth)| **object == [nth; 6]));
        // SAFETY: written above, and no one else has it.
        assert_eq!(unsafe { place.cast::<[u8; 48]>().read() }, [7; 48]);
    });
}
