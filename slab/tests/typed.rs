//! Tests boxes, constructors, threads that start and exit, and debug mode.
#![allow(unsafe_code, clippy::unwrap_used)]

use slab::{Arena, Cache, Construct, ConstructedCache, Debug, Error, Layout, Options, RawCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;

fn arena() -> Arc<Arena> {
    Arena::new(page::Config::default()).unwrap()
}

#[test]
fn boxes_free_themselves_from_any_thread() {
    let cache = Cache::<[u64; 5]>::new(&arena(), "fives").unwrap();
    for round in 0..50u64 {
        let boxes: Vec<_> = (0..200).map(|n| cache.alloc([round * n; 5]).unwrap()).collect();
        std::thread::spawn(move || {
            for (n, object) in boxes.iter().enumerate() {
                assert_eq!(**object, [round * n as u64; 5]);
            }
        })
        .join()
        .unwrap();
        // This thread collects the objects that the other thread freed in this thread's slabs.
        cache.shrink();
        cache.raw().check();
        assert_eq!(cache.stat().active_objects, 0);
    }
    cache.shrink();
    assert_eq!(cache.stat().slabs, 0, "threads that ended keep nothing");
    cache.destroy().unwrap();
}

#[test]
fn boxes_outlive_their_cache_and_are_named() {
    let cache = Cache::<u64>::new(&arena(), "numbers").unwrap();
    let kept = cache.alloc(7).unwrap();
    let leak = cache.destroy().unwrap_err();
    assert_eq!(leak.objects.len(), 1);
    assert!(leak.to_string().starts_with("1 objects of the cache numbers were not freed: 0x"));
    assert_eq!(*kept, 7);
}

#[test]
fn what_is_taken_by_one_thread_is_freed_by_another() {
    for layout in Layout::ALL {
        let options = Options { layout, ..Options::default() };
        let cache = Cache::<u64>::with_options(&arena(), options).unwrap();
        // Joins the threads, because a scope does not wait for their thread-local destructors.
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .flat_map(|_| {
                    let (sender, receiver) = channel();
                    let cache = &cache;
                    let send = move || {
                        (0..20_000).for_each(|n| sender.send(cache.alloc(n).unwrap()).unwrap());
                    };
                    let receive = move || {
                        receiver.iter().enumerate().for_each(|(n, got)| assert_eq!(*got, n as u64));
                    };
                    [scope.spawn(send), scope.spawn(receive)]
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        cache.raw().check();
        assert_eq!(cache.stat().active_objects, 0);
        cache.shrink();
        assert_eq!(cache.stat().slabs, 0);
    }
}

#[test]
fn asked_threads_give_back_what_they_keep() {
    let cache = Cache::<[u64; 8]>::new(&arena(), "kept").unwrap();
    let (done, other) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let boxes: Vec<_> = (0..100).map(|n| cache.alloc([n; 8]).unwrap()).collect();
            drop(boxes);
            done.wait();
            other.wait();
            drop(cache.alloc([1; 8]).unwrap());
            cache.shrink();
            assert_eq!(cache.stat().slabs, 0);
        });
        done.wait();
        cache.shrink();
        assert!(cache.stat().in_magazines > 0 && cache.stat().slabs > 0);
        other.wait();
    });
}

static MADE: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Dear(Vec<u8>);

impl Construct for Dear {
    fn construct() -> Self {
        MADE.fetch_add(1, Relaxed);
        Dear(vec![1])
    }
}

impl Drop for Dear {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Relaxed);
    }
}

#[test]
fn constructed_objects_stay_as_they_were_left() {
    let cache = ConstructedCache::<Dear>::new(&arena(), Options::named("dear")).unwrap();
    let mut first = cache.alloc().unwrap();
    assert_eq!(first.0, [1]);
    first.0.push(2);
    drop(first);
    assert_eq!(cache.alloc().unwrap().0, [1, 2]);
    assert_eq!(MADE.load(Relaxed), cache.stat().objects);
    cache.shrink();
    cache.destroy().unwrap();
    assert_eq!(MADE.load(Relaxed), DROPPED.load(Relaxed));
}

#[test]
fn writes_where_no_one_may_are_named() {
    for layout in Layout::ALL {
        let options = Options { layout, debug: Debug::On, ..Options::named("guarded") };
        let cache = RawCache::with_options(&arena(), 24, 8, options).unwrap();
        let objects: Vec<_> = (0..4).map(|_| cache.alloc().unwrap()).collect();
        let at = |nth: usize| objects[nth].addr().get();
        // SAFETY: all bytes written lie within the slab, which only this test uses.
        unsafe {
            objects[0].write_bytes(1, 24);
            cache.free(objects[0]).unwrap();
            objects[1].add(24).write(1);
            let end = Error::RedZone { address: at(1), at: at(1) + 24 };
            assert_eq!(cache.free(objects[1]), Err(end));
            assert_eq!(cache.free(objects[1]), Err(end), "once more");
            objects[2].sub(1).write(1);
            let before = Error::RedZone { address: at(2), at: at(2) - 1 };
            assert_eq!(cache.free(objects[2]), Err(before));
            cache.free(objects[3]).unwrap();
            objects[3].add(5).write(1);
        }
        let all = cache.shape().objects;
        let next: Vec<_> = (0..all - 2).map(|_| cache.alloc()).collect();
        let used = Error::UsedAfterFree { address: at(3), at: at(3) + 5 };
        assert_eq!(next.iter().filter(|object| **object == Err(used)).count(), 1);
        assert_eq!(cache.stat().lost, 3);
        assert_eq!(cache.stat().active_objects, next.len() - 1);
        cache.check();
        assert_eq!(cache.destroy().unwrap_err().objects.len(), next.len() - 1);
    }
}

/// Threads allocate, pass on and free objects of one cache at random. Every object holds the value
/// that was written, and all objects are freed at the end.
#[test]
fn threads_at_random() {
    let seed = testkit::seed(0);
    for layout in Layout::ALL {
        let tunables = Some(slab::Tunables { limit: 40, batchcount: 20 });
        let options = Options { layout, tunables, ..Options::default() };
        let cache = Cache::<[u64; 6]>::with_options(&arena(), options).unwrap();
        let shared = std::sync::Mutex::new(Vec::new());
        let work = |nth: u64| {
            let mut random = fastrand::Rng::with_seed(seed + nth);
            let mut mine = Vec::new();
            for step in 0..30_000 {
                match random.u8(..8) {
                    0 => shared.lock().unwrap().extend(mine.pop()),
                    1 => mine.extend(shared.lock().unwrap().pop()),
                    2..5 if mine.len() < 300 => {
                        mine.push((step, cache.alloc([step; 6]).unwrap()));
                    }
                    5 if step % 97 == 0 => drop(cache.shrink()),
                    _ if !mine.is_empty() => {
                        let (stamp, object) = mine.swap_remove(random.usize(..mine.len()));
                        assert_eq!(*object, [stamp; 6]);
                    }
                    _ => {}
                }
            }
        };
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..4).map(|nth| scope.spawn(move || work(nth))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        cache.raw().check();
        assert_eq!(cache.stat().active_objects, shared.lock().unwrap().len());
        shared.lock().unwrap().clear();
        cache.shrink();
        cache.raw().check();
        assert_eq!(cache.stat().slabs, 0);
        cache.destroy().unwrap();
    }
}

#[test]
fn a_box_that_is_not_taken_back_is_told_of() {
    let options = Options { debug: Debug::On, ..Options::named("guarded") };
    let cache = Cache::<u64>::with_options(&arena(), options).unwrap();
    let object = cache.alloc(1).unwrap();
    let behind = std::ptr::from_ref(&*object).expose_provenance() + 8;
    // SAFETY: the byte lies in the slab after the object, and only this thread accesses it.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(behind).write(1) };
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(object)));
    let told = *dropped.unwrap_err().downcast::<String>().unwrap();
    assert!(told.starts_with("an object of the cache guarded can't be freed: "), "{told}");
    assert_eq!((cache.stat().refused, cache.stat().lost), (1, 1));
    drop(cache.alloc(2).unwrap());
    assert_eq!(cache.stat().refused, 1);
    cache.raw().check();
}
