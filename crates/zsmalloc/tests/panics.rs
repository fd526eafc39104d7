//! Tests a background thread that panics in the caller's code. Another thread replaces the panicked
//! thread, and no object is lost.
#![allow(clippy::unwrap_used)]

use page::{Request, Supply};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use testkit::wait::until;
use zsmalloc::{Config, Pool};

/// A supply that panics when a background thread first requests a page, and counts the requests.
#[derive(Debug, Default)]
struct Panics(AtomicU32);

impl Supply for Panics {
    fn grant(&self, request: Request) -> bool {
        let thread = std::thread::current();
        let is_the_pools = thread.name().is_some_and(|name| name.starts_with("uzram-"));
        if is_the_pools && let Request::Commit { .. } = request {
            assert!(self.0.fetch_add(1, SeqCst) > 0, "a panic that is wanted here");
        }
        true
    }
}

#[test]
fn another_thread_comes_after_a_panic() {
    let supply = Arc::new(Panics::default());
    let pages = page::Config { supply: Some(supply.clone()), ..page::Config::default() };
    let pool = Pool::new(Config { pages, ..Config::default() }).unwrap();
    pool.compact_in_background();
    let mut handles = Vec::new();
    // No thread is started for a second after the panic.
    until("the mover panics", || {
        for nth in 0..100 {
            handles.push((pool.store(&[nth; 1000]).unwrap(), nth));
        }
        if handles.len() > 20_000 {
            for (handle, _) in handles.drain(5000..) {
                pool.free(handle).unwrap();
            }
        }
        supply.0.load(SeqCst) >= 2
    });
    assert_eq!(pool.compaction_stat().panics, 1);
    pool.check();
    for (handle, nth) in handles {
        assert_eq!(*pool.read(&handle).unwrap(), [nth; 1000]);
        pool.free(handle).unwrap();
    }
    pool.trim();
    pool.check();
    assert_eq!(pool.pages().used(), 0);
}

/// A pass that a panic ended does not block later passes.
#[test]
fn words_are_tidied_after_a_panic() {
    let pool =
        zsmalloc::EntryPool::new(Config::default(), 1 << 20, zsmalloc::Columns::default()).unwrap();
    let store = |index| pool.lock(index).unwrap().store(b"bytes", 0).unwrap();
    (0..100_000).for_each(|index| _ = store(index));
    (0..100_000).for_each(|index| _ = pool.lock(index).unwrap().set_payload(0));
    let before = pool.bytes();
    let asked = AtomicU32::new(0);
    let panics = || {
        let mut go_on = || {
            assert!(asked.fetch_add(1, SeqCst) < 20, "a panic that is wanted here");
            true
        };
        pool.rebalance(&mut go_on)
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert!(pool.rebalance(&mut || true) > 0);
    assert!(pool.bytes() < before);
    pool.check();
}
