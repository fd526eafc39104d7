//! Tests prefaulted pages. Stores find these pages ready, the pages count as used, and they are
//! released after stores have stopped.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use page::{Request, Supply};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use testkit::seed;
use testkit::wait::{until, until_with};
use zsmalloc::{Config, Handle, Pool};

/// True once the prefault thread has requested a page.
#[derive(Debug, Default)]
struct Fetched(AtomicBool);

impl Supply for Fetched {
    fn grant(&self, request: Request) -> bool {
        let thread = std::thread::current();
        if thread.name() == Some("uzram-pages")
            && let Request::Commit { .. } = request
        {
            self.0.store(true, Relaxed);
        }
        true
    }
}

fn ready(pool: &Pool) -> u64 {
    pool.classes().iter().map(|stat| stat.ready).sum()
}

fn store(pool: &Pool, rng: &mut Rng, nth: u32) -> Result<(Handle, Vec<u8>), zsmalloc::Error> {
    let bytes = [nth as u8].repeat(rng.usize(100..=1500));
    Ok((pool.store(&bytes)?, bytes))
}

fn expect(pool: &Pool, kept: &[(Handle, Vec<u8>)]) {
    assert!(kept.iter().all(|(handle, bytes)| *pool.read(handle).unwrap() == **bytes));
}

#[test]
fn pages_are_there_ahead_of_need_and_go_when_no_one_stores() {
    let fetched = Arc::new(Fetched::default());
    let pages = page::Config { supply: Some(fetched.clone()), ..page::Config::default() };
    let pool = Pool::new(Config { pages, ..Config::default() }).unwrap();
    pool.compact_in_background();
    let mut rng = Rng::with_seed(seed(1));
    let mut kept = Vec::new();
    let mut nth = 0;
    until_with(Duration::ZERO, "a page is fetched", || {
        for _ in 0..64 {
            kept.push(store(&pool, &mut rng, nth).unwrap());
            nth += 1;
        }
        // This pause lets the prefault thread run if all processors are busy. The pause grows with
        // the number of objects.
        std::thread::sleep(Duration::from_micros(100 + u64::from(nth)));
        fetched.0.load(Relaxed)
    });
    until("no page stays ready", || ready(&pool) == 0);
    pool.check();
    expect(&pool, &kept);
}

#[test]
fn a_limit_is_met_by_objects_alone() {
    let pool = Pool::new(Config::default()).unwrap();
    pool.compact_in_background();
    let limit = 1000;
    pool.pages().set_limit(Some(limit));
    let mut rng = Rng::with_seed(seed(2));
    let mut kept = Vec::new();
    let refused = (0..).find_map(|nth| match store(&pool, &mut rng, nth) {
        Ok(object) => {
            kept.push(object);
            assert!(pool.pages().used() <= limit);
            None
        }
        Err(error) => Some(error),
    });
    assert!(refused.is_some());
    let bytes: usize = kept.iter().map(|(_, bytes)| bytes.len()).sum();
    let filled = bytes as f64 / (limit * page::page_size()) as f64;
    assert!(filled > 0.9, "{filled} of the limit holds objects");
    expect(&pool, &kept);
    pool.pages().set_limit(None);
    let more = store(&pool, &mut rng, 7).unwrap();
    expect(&pool, &[more]);
    pool.check();
}
