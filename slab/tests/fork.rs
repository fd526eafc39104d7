//! Tests caches in the child of a fork, while other threads of the parent use them (I8).
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use slab::{Arena, Cache, CacheBox, Layout, Memory, Options, Tunables};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use testkit::child::in_child;
use testkit::wait::until;

type Box6 = CacheBox<[u64; 6]>;

fn alloc(cache: &Cache<[u64; 6]>, value: u64) -> Box6 {
    cache.alloc([value; 6]).unwrap()
}

/// Allocates and frees objects, and passes some to other threads, which free them.
fn disturb(
    cache: &Cache<[u64; 6]>,
    (seed, mark): (u64, u64),
    stop: &AtomicBool,
    ends: &(Sender<Box6>, Receiver<Box6>),
) {
    let mut random = Rng::with_seed(seed);
    let mut mine = Vec::new();
    while !stop.load(Relaxed) {
        let most = random.usize(..600);
        while mine.len() < most {
            mine.push(alloc(cache, mark));
        }
        while mine.len() > most / 2 {
            let object = mine.swap_remove(random.usize(..mine.len()));
            assert_eq!(*object, [mark; 6]);
            if random.bool() {
                drop(ends.0.send(object));
            }
        }
        ends.1.try_iter().for_each(drop);
        if random.u8(..) == 0 {
            cache.shrink();
        }
    }
}

/// Uses the child's copy of a cache. The existing objects must be intact. The child's threads must
/// be able to allocate objects.
fn use_all(arena: &Arena, cache: &Cache<[u64; 6]>, kept: Vec<Box6>) {
    cache.raw().check();
    arena.check();
    assert!(kept.iter().all(|object| **object == [7; 6]));
    let more: Vec<_> = (0..2000).map(|_| alloc(cache, 8)).collect();
    cache.raw().check();
    std::thread::scope(|scope| {
        let frees = scope.spawn(|| drop(kept));
        let both = scope.spawn(|| drop((0..500).map(|_| alloc(cache, 9)).collect::<Vec<_>>()));
        // Joins the threads, because a scope does not wait for the thread-local destructors of its
        // threads.
        frees.join().unwrap();
        both.join().unwrap();
    });
    assert!(more.iter().all(|object| **object == [8; 6]));
    drop(more);
    cache.shrink();
    assert_eq!(cache.stat().in_magazines, 0, "threads that are lost keep nothing");
    cache.raw().check();
    arena.check();
}

/// Stops the other threads on drop, even if this thread panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn fork_all(options: Options) {
    let arena = Arena::new(page::Config::default()).unwrap();
    let cache = Cache::with_options(&arena, options).unwrap();
    let stop = AtomicBool::new(false);
    let ends: Vec<(Sender<Box6>, Receiver<Box6>)> = {
        let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| channel()).unzip();
        senders.rotate_left(1);
        senders.into_iter().zip(receivers).collect()
    };
    let seed = testkit::seed(0);
    let started = Barrier::new(ends.len() + 1);
    std::thread::scope(|scope| {
        let stopping = Stop(&stop);
        let start = |(nth, ends)| {
            let (cache, stop, started) = (&cache, &stop, &started);
            scope.spawn(move || {
                started.wait();
                disturb(cache, (seed + nth, nth), stop, &ends);
            })
        };
        let threads: Vec<_> = (0..).zip(ends).map(start).collect();
        // Waits until all threads have started. A thread that starts or exits holds locks of the
        // standard library, which does not handle forks.
        started.wait();
        for _ in 0..20 {
            let mut kept: Vec<_> = (0..300).map(|_| alloc(&cache, 7)).collect();
            in_child(|| use_all(&arena, &cache, std::mem::take(&mut kept)));
            assert!(kept.iter().all(|object| **object == [7; 6]));
        }
        drop(stopping);
        // Joins the threads, because a scope does not wait for the thread-local destructors of its
        // threads.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // The leak checker must run only after all grace periods have ended.
    drop(cache);
    until("memory that waits for a grace period goes", || {
        slab::pin().flush();
        arena.budget().used() == 0
    });
}

/// This file has only one test, so that no thread of another test starts or exits during the fork.
#[test]
fn a_child_has_a_whole_copy() {
    for layout in Layout::ALL {
        for (limit, reserve) in [(0, 0), (20, 5), (2000, 0)] {
            let tunables = Some(Tunables { limit, batchcount: limit / 2 });
            fork_all(Options { layout, tunables, reserve, ..Options::named("forked") });
        }
    }
    fork_all(Options { memory: Memory::Stable, ..Options::default() });
}
