//! Caches in a child after fork, while other threads of the parent use them (I8).
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "../../zsmalloc/tests/support/child.rs"]
mod child;
#[path = "../../page/tests/support/seed.rs"]
mod seed;

use child::in_child;
use fastrand::Rng;
use slab::{
    Arena, Cache, CacheBox, Construct, ConstructedCache, Layout, Memory, Options, Tunables,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

type Box6 = CacheBox<[u64; 6]>;

fn alloc(cache: &Cache<[u64; 6]>, value: u64) -> Box6 {
    cache.alloc([value; 6]).unwrap()
}

/// Takes, frees, and passes on to be freed.
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

/// What a thread has in a cache of its own copy: there is all it had, and room for more, from other threads too.
fn use_all(arena: &Arena, cache: &Cache<[u64; 6]>, kept: Vec<Box6>) {
    cache.raw().check();
    arena.check();
    assert!(kept.iter().all(|object| **object == [7; 6]));
    let more: Vec<_> = (0..2000).map(|_| alloc(cache, 8)).collect();
    cache.raw().check();
    std::thread::scope(|scope| {
        let frees = scope.spawn(|| drop(kept));
        let both = scope.spawn(|| drop((0..500).map(|_| alloc(cache, 9)).collect::<Vec<_>>()));
        // A scope does not wait for what threads do when they end.
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

/// Stops the others, whatever ends this thread.
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
    let seed = seed::seed(0);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for (nth, ends) in (0..).zip(ends) {
            let (cache, stop) = (&cache, &stop);
            scope.spawn(move || disturb(cache, (seed + nth, nth), stop, &ends));
        }
        for _ in 0..20 {
            let mut kept: Vec<_> = (0..300).map(|_| alloc(&cache, 7)).collect();
            in_child(|| use_all(&arena, &cache, std::mem::take(&mut kept)));
            assert!(kept.iter().all(|object| **object == [7; 6]));
        }
    });
}

#[test]
fn a_child_has_a_whole_copy() {
    for layout in Layout::ALL {
        for (limit, reserve) in [(0, 0), (20, 5), (2000, 0)] {
            let tunables = Some(Tunables { limit, batchcount: limit / 2 });
            fork_all(Options { layout, tunables, reserve, ..Options::named("forked") });
        }
    }
}

#[test]
fn a_child_has_a_whole_copy_of_stable_memory() {
    fork_all(Options { memory: Memory::Stable, ..Options::default() });
}

/// What makes or ends the next object forks; afterwards its answer.
static FORKS: AtomicI32 = AtomicI32::new(NOT_ASKED);
const NOT_ASKED: i32 = -1;
const ASKED: i32 = -2;

struct Forking([u64; 500]);

impl Forking {
    fn fork_if_asked() {
        if FORKS.compare_exchange(ASKED, NOT_ASKED, Relaxed, Relaxed).is_ok() {
            // SAFETY: as in `in_child`; the child ends in `end_in_child`.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                // SAFETY: it has a handler from the start, which ends the child.
                unsafe { libc::alarm(60) };
            }
            FORKS.store(child, Relaxed);
        }
    }
}

impl Construct for Forking {
    fn construct() -> Self {
        Self::fork_if_asked();
        Forking([7; 500])
    }
}

impl Drop for Forking {
    fn drop(&mut self) {
        Self::fork_if_asked();
        assert_eq!(self.0, [7; 500]);
    }
}

/// The child does `work` and ends; its parent waits for it.
fn end_in_child(work: impl FnOnce()) {
    match FORKS.swap(NOT_ASKED, Relaxed) {
        0 => {
            let worked = catch_unwind(AssertUnwindSafe(work)).is_ok();
            // SAFETY: it ends the child, which nothing else runs in.
            unsafe { libc::_exit(i32::from(!worked)) }
        }
        child => {
            assert!(child > 0, "a fork was met");
            let mut status = 0;
            // SAFETY: `status` is this function's.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child failed");
        }
    }
}

/// The slab that a constructor or destructor is called for is its thread's, in a child too.
#[test]
fn a_fork_amid_a_constructor_or_destructor() {
    for memory in [Memory::AnyTime, Memory::Stable] {
        let arena = Arena::new(page::Config::default()).unwrap();
        let options = || Options { memory, ..Options::named("forking") };
        let cache = ConstructedCache::<Forking>::new(&arena, options()).unwrap();
        let use_it = || {
            let boxes: Vec<_> = (0..500).map(|_| cache.alloc().unwrap()).collect();
            assert!(boxes.iter().all(|object| object.0 == [7; 500]));
            drop(boxes);
            cache.shrink();
            (0..100).for_each(|_| slab::pin().flush());
            assert_eq!((cache.stat().slabs, cache.stat().active_objects), (0, 0));
            arena.check();
            assert_eq!(arena.budget().used(), 0);
        };
        FORKS.store(ASKED, Relaxed);
        let first = cache.alloc().unwrap();
        end_in_child(|| {
            assert_eq!(first.0, [7; 500]);
            let more: Vec<_> = (0..500).map(|_| cache.alloc().unwrap()).collect();
            assert!(more.iter().all(|object| object.0 == [7; 500]));
            arena.check();
        });
        drop(first);
        FORKS.store(ASKED, Relaxed);
        use_it();
        end_in_child(use_it);
    }
}
