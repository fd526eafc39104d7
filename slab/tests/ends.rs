//! Tests that threads exit while their objects' destructors use caches.
#![allow(unsafe_code, clippy::unwrap_used)]

use slab::{Arena, Cache, Construct, ConstructedCache, Layout, Options, RawCache, Shape, Tunables};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, LazyLock};
use std::time::Duration;

static ARENA: LazyLock<Arc<Arena>> = LazyLock::new(|| Arena::new(page::Config::default()).unwrap());
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// An object that owns a cache. The object's destructor uses the cache a last time and then drops
/// it.
struct Owner {
    cache: Cache<u64>,
    _bytes: [u8; 4000],
}

impl Construct for Owner {
    fn construct() -> Self {
        Owner { cache: Cache::new(&ARENA, "owned").unwrap(), _bytes: [0; 4000] }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        assert_eq!(*self.cache.alloc(7).unwrap(), 7);
        ENDED.fetch_add(1, Relaxed);
    }
}

/// Returns tunables that let a thread keep two slabs of objects of `size` bytes. The second result
/// is a number of objects that needs two slabs.
fn two_slabs(size: usize) -> (Option<Tunables>, usize) {
    let objects = Shape::new(Layout::Native, size, 8).unwrap().objects;
    let limit = 2 * objects as u32;
    (Some(Tunables { limit, batchcount: limit }), objects + 1)
}

/// Several threads that own slabs with free objects exit at the same time. More slabs become empty
/// than a cache keeps.
fn end_threads() {
    const THREADS: usize = 8;
    let (tunables, objects) = two_slabs(size_of::<Owner>());
    let options = Options { tunables, ..Options::named("owners") };
    let cache = ConstructedCache::<Owner>::new(&ARENA, options).unwrap();
    let all = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let work = || {
            let boxes: Vec<_> = (0..objects).map(|_| cache.alloc().unwrap()).collect();
            all.wait();
            drop(boxes);
            all.wait();
            assert_eq!(ENDED.load(Relaxed), 0, "all is kept until threads end");
            all.wait();
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert!(ENDED.load(Relaxed) > 0, "the last threads gave slabs back");
    // The registry is not locked, so caches can be created and ended.
    drop(Cache::<u64>::new(&ARENA, "new").unwrap().alloc(1).unwrap());
    let made = cache.stat().objects + ENDED.load(Relaxed);
    cache.destroy().unwrap();
    assert_eq!(ENDED.load(Relaxed), made);
    ARENA.check();
    assert_eq!(ARENA.budget().used(), 0);
}

#[test]
fn a_destructor_may_end_a_cache_when_its_thread_ends() {
    let (done, ended) = channel();
    let work = std::thread::spawn(move || {
        end_threads();
        done.send(()).unwrap();
    });
    // A timeout means a deadlock, which affects other threads too.
    let waited = ended.recv_timeout(Duration::from_secs(60));
    assert!(waited.is_ok() || work.is_finished(), "threads that end hang");
    work.join().unwrap();
}

/// A scope does not wait for the thread-local destructors of its threads. So the cache ends while
/// the destructors run.
#[test]
fn a_cache_ends_while_its_threads_do() {
    let arena = Arena::new(page::Config::default()).unwrap();
    for _ in 0..300 {
        let (tunables, objects) = two_slabs(4000);
        let options = Options { tunables, ..Options::named("short") };
        let cache = RawCache::with_options(&arena, 4000, 8, options).unwrap();
        let all = Barrier::new(8);
        std::thread::scope(|scope| {
            let work = || {
                let objects: Vec<_> = (0..objects).map(|_| cache.alloc().unwrap()).collect();
                all.wait();
                // SAFETY: no code uses the objects again.
                objects.into_iter().for_each(|object| unsafe { cache.free(object).unwrap() });
            };
            (0..8).for_each(|_| drop(scope.spawn(work)));
        });
        cache.destroy().unwrap();
    }
    // Slabs that exiting threads were reclaiming are released after some time.
    for _ in 0..6000 {
        if arena.budget().used() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(arena.budget().used(), 0);
}
