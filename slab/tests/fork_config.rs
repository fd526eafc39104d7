//! Tests that the child of a fork inherits the objects, whatever the arena's configuration. Callers
//! access objects by their addresses.
#![allow(clippy::unwrap_used)]

use slab::{Arena, Cache};
use testkit::child::in_child;

#[test]
fn a_child_has_the_objects_whatever_was_asked_for() {
    let config = page::Config { in_children: false, ..page::Config::default() };
    let cache = Cache::<[u64; 6]>::new(&Arena::new(config).unwrap(), "numbers");
    let cache = cache.unwrap();
    let objects: Vec<_> = (0..1000).map(|nth| cache.alloc([nth; 6]).unwrap()).collect();
    in_child(|| {
        assert!(objects.iter().zip(0..).all(|(object, nth)| **object == [nth; 6]));
    });
}
