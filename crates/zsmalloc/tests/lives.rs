//! Reuses IDs of zspages in other classes, while a compacting thread looks up headers by these IDs.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use testkit::{is_long, seed};
use zsmalloc::{Config, Pool};

#[test]
fn stress_numbers_come_again_in_other_classes() {
    let steps = if is_long() { 200_000 } else { 5000 };
    let pool = Pool::new(Config::default()).unwrap();
    let mut seeds = Rng::with_seed(seed(1));
    let working = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (pool, working, mut rng) = (&pool, &working, seeds.fork());
            scope.spawn(move || {
                for _ in 0..steps {
                    let len = [100, 2000, 3000][rng.usize(..3)];
                    pool.free(pool.store(&vec![1; len]).unwrap()).unwrap();
                    pool.trim();
                }
                working.fetch_sub(1, Relaxed);
            });
        }
        while working.load(Relaxed) > 0 {
            pool.compact();
        }
    });
    pool.check();
    assert_eq!(pool.pages().used(), 0);
}
