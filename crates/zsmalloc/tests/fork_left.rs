//! Tests a pool whose pages stay with the parent (`in_children: false`). In a child the pool
//! refuses all requests, touches no page and never waits.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use testkit::child::in_child;
use testkit::load::Stop;
use testkit::seed;
use zsmalloc::{Columns, Config, EntryPool, Error, Handle, Pool};

fn left() -> Config {
    let pages = page::Config { in_children: false, ..page::Config::default() };
    Config { pages, ..Config::default() }
}

/// Allocates memory in the child. If the addresses of the pool's pages were free in the child, some
/// allocations would get these addresses.
fn own_memory() -> Vec<Vec<u8>> {
    (0..16).map(|nth| vec![nth + 1; 4 << 20]).collect()
}

fn is_whole(own: &[Vec<u8>]) -> bool {
    own.iter().zip(1..).all(|(own, nth)| own.iter().all(|&byte| byte == nth))
}

/// Fills a pool. Returns the handles of some objects, and the raw handles of the other objects.
fn filled(pool: &Pool) -> (Vec<Handle>, Vec<u64>) {
    let store = |nth: usize| pool.store(&vec![nth as u8; 1 + nth * 37 % 4096]).unwrap();
    let mut handles: Vec<_> = (0..3000).map(store).collect();
    // The freed objects leave holes to compact, and retained pages.
    let mut raw: Vec<_> = handles.drain(1000..).map(Handle::into_raw).collect();
    for raw in raw.drain(500..) {
        pool.free(Handle::from_raw(raw).unwrap()).unwrap();
    }
    (handles, raw)
}

fn expect_refusals(pool: &Pool, handles: &[Handle], raw: &[u64]) {
    assert_eq!(pool.store(b"bytes").unwrap_err(), Error::LeftBehind);
    assert_eq!(pool.malloc(17).unwrap_err(), Error::LeftBehind);
    for handle in handles {
        assert_eq!(pool.read(handle).unwrap_err(), Error::LeftBehind);
        assert_eq!(pool.write(handle, b"x").unwrap_err(), Error::LeftBehind);
    }
    for &raw in raw {
        assert_eq!(pool.free(Handle::from_raw(raw).unwrap()).unwrap_err(), Error::LeftBehind);
    }
    assert_eq!((pool.compact(), pool.shrink(1 << 30), pool.trim(), pool.rebalance()), (0, 0, 0, 0));
}

#[test]
fn a_child_without_the_pages_is_refused_everything() {
    let mut pool = Some(Pool::new(left()).unwrap());
    let (handles, raw) = filled(pool.as_ref().unwrap());
    pool.as_ref().unwrap().compact_in_background();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let (pool, stop) = (pool.as_ref().unwrap(), &stop);
        // The fork interrupts operations of these threads. The child waits for none of these
        // operations.
        let mut seeds = Rng::with_seed(seed(1));
        for _ in 0..3 {
            let mut rng = seeds.fork();
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    let many: Vec<_> = (0..200)
                        .map(|_| pool.store(&vec![7; rng.usize(1..=4096)]).unwrap())
                        .collect();
                    pool.trim();
                    many.into_iter().for_each(|handle| pool.free(handle).unwrap());
                    pool.compact();
                    pool.rebalance();
                }
            });
        }
        for _ in 0..10 {
            in_child(|| {
                let own = own_memory();
                expect_refusals(pool, &handles, &raw);
                // Requests that need no page return the state at the fork.
                assert!(pool.len() >= 1500 && !pool.is_empty());
                assert!(pool.pages().used() > 0 && pool.bytes() > 0 && pool.largest() == 4096);
                assert!(!pool.classes().to_string().is_empty());
                let _ = (pool.freeable(), pool.compaction_stat(), pool.read_waits());
                pool.check();
                assert!(is_whole(&own));
                // A grandchild's requests are refused too.
                in_child(|| expect_refusals(pool, &handles, &raw));
            });
        }
    });
    // Dropping the pool in the child frees no memory of the child.
    in_child(|| {
        let own = own_memory();
        drop(pool.take());
        assert!(is_whole(&own));
        let own = Pool::new(left()).unwrap();
        let handle = own.store(b"the child's own").unwrap();
        assert_eq!(&*own.read(&handle).unwrap(), b"the child's own");
        own.check();
        own.free(handle).unwrap();
    });
    let pool = pool.unwrap();
    pool.check();
    for (nth, handle) in handles.into_iter().enumerate() {
        assert!(*pool.read(&handle).unwrap() == vec![nth as u8; 1 + nth * 37 % 4096]);
        pool.free(handle).unwrap();
    }
    raw.into_iter().for_each(|raw| pool.free(Handle::from_raw(raw).unwrap()).unwrap());
}

/// Entries are refused too, even if the pool is not registered for forks.
#[test]
fn words_are_refused_in_a_child_without_the_pages() {
    for is_registered in [false, true] {
        let core = Arc::new(EntryPool::new(left(), 100, Columns::default()).unwrap());
        if is_registered {
            let weak: Weak<EntryPool> = Arc::downgrade(&core);
            page::fork::register(weak, page::fork::Turn::First);
        }
        for index in 0..50 {
            let staged = core.stage(index, &[index as u8; 3000]).unwrap();
            core.lock(index).unwrap().replace(staged, 0);
        }
        in_child(|| {
            let own = own_memory();
            assert!(matches!(core.lock(7), Err(Error::LeftBehind)));
            assert!(matches!(core.stage(7, b"bytes"), Err(Error::LeftBehind)));
            // `read`, `lock_existing` and `read_ahead` can't return an error, so they panic.
            let panics = |work: &dyn Fn()| catch_unwind(AssertUnwindSafe(work)).is_err();
            assert!(panics(&|| drop(core.read(7))));
            assert!(panics(&|| drop(core.lock_existing(7))));
            assert!(panics(&|| drop(core.read_ahead(0..10))));
            core.prefetch(7);
            assert!(!core.set_flags_if_unlocked(7, |_, _, _| 1));
            assert!(core.look_at(7, |held, _| held).is_some() && !core.is_vacant(7));
            assert!(core.is_left_behind());
            assert_eq!((core.compact(), core.shrink(1), core.trim()), (0, 0, 0));
            assert_eq!(core.rebalance(&mut || true), 0);
            core.check();
            assert!(is_whole(&own));
        });
        core.check();
    }
}
