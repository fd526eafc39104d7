//! Tests a fork while another thread creates the first cache of the process. The child must be able
//! to create caches.
#![allow(unsafe_code, clippy::unwrap_used)]

use slab::{Arena, Cache};
use std::process::Command;
use std::sync::Barrier;
use testkit::child::in_child;

/// The environment variable that selects the role of this process. Its value is the number of times
/// that the forking thread spins before the fork.
const TURNS: &str = "FORK_FIRST_TURNS";

fn make() {
    let arena = Arena::new(page::Config::default()).unwrap();
    let cache = Cache::<[u64; 6]>::new(&arena, "first").unwrap();
    assert_eq!(*cache.alloc([7; 6]).unwrap(), [7; 6]);
    cache.raw().check();
}

fn fork_amid(turns: u32) {
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            both.wait();
            make();
        });
        both.wait();
        (0..turns).for_each(|_| std::hint::spin_loop());
        in_child(make);
    });
}

/// Each attempt runs in a new process, because a process creates its first cache only once.
#[test]
fn a_child_of_a_fork_amid_the_first_cache_makes_its_own() {
    if let Ok(turns) = std::env::var(TURNS) {
        return fork_amid(turns.parse().unwrap());
    }
    for turns in (0..2000).step_by(50) {
        let mut own = Command::new(std::env::current_exe().unwrap());
        let own = own.env(TURNS, turns.to_string()).args(["--test-threads", "1"]);
        let output = own.output().unwrap();
        assert!(output.status.success(), "after {turns} turns: {output:?}");
    }
}
