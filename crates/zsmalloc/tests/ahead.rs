//! Pages fetched ahead of need: they are there while objects are stored, count as used, and go when no one stores.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::time::{Duration, Instant};
use zsmalloc::{Config, Handle, Pool};

/// Objects stored at most until a page is seen that was fetched.
const OBJECTS_MAX: u32 = 400_000;

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

/// Nothing is freed, so pages without objects can only have been fetched.
#[test]
fn pages_are_there_ahead_of_need_and_go_when_no_one_stores() {
    let pool = Pool::new(Config::default()).unwrap();
    pool.compact_in_background();
    let mut rng = Rng::with_seed(1);
    let mut kept = Vec::new();
    let seen = (0..OBJECTS_MAX).any(|nth| {
        kept.push(store(&pool, &mut rng, nth).unwrap());
        if nth % 64 == 0 {
            // Where all processors are taken, the thread that fetches has its turn now.
            std::thread::sleep(Duration::from_micros(100));
        }
        nth % 64 == 0 && ready(&pool) > 0
    });
    assert!(seen, "no page was fetched");
    let begun = Instant::now();
    while ready(&pool) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} pages stay ready", ready(&pool));
        std::thread::sleep(Duration::from_millis(5));
    }
    pool.check();
    expect(&pool, &kept);
}

#[test]
fn a_limit_is_met_by_objects_alone() {
    let pool = Pool::new(Config::default()).unwrap();
    pool.compact_in_background();
    let limit = 1000;
    pool.pages().set_limit(Some(limit));
    let mut rng = Rng::with_seed(2);
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
