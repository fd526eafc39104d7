//! A pool in a child after fork, while other threads of the parent use it (I8).
#![allow(clippy::unwrap_used)]

mod support;

use fastrand::Rng;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use support::Stop;
use support::child::in_child;
use zsmalloc::{Config, Geometry, Handle, KernelGeometry, Pool};

fn data(rng: &mut Rng) -> Vec<u8> {
    let (byte, len) = (rng.u8(..), rng.usize(1..=4096));
    vec![byte; len]
}

/// Stores, writes, frees, compacts and tidies until told to stop.
fn disturb(pool: &Pool, seed: u64, stop: &AtomicBool) {
    let mut rng = Rng::with_seed(seed);
    let mut mine: Vec<(Handle, Vec<u8>)> = Vec::new();
    while !stop.load(Relaxed) {
        match rng.u32(..100) {
            0 => drop(pool.compact()),
            1..5 => drop(pool.tidy()),
            5..40 if mine.len() < 500 => {
                let data = data(&mut rng);
                mine.push((pool.store(&data).unwrap(), data));
            }
            1..60 if !mine.is_empty() => {
                let (handle, data) = mine.swap_remove(rng.usize(..mine.len()));
                assert!(*pool.read(&handle).unwrap() == data);
                pool.free(handle).unwrap();
            }
            _ if !mine.is_empty() => {
                let nth = rng.usize(..mine.len());
                let (handle, data) = &mut mine[nth];
                data.fill(rng.u8(..));
                pool.write(handle, data).unwrap();
            }
            _ => {}
        }
    }
    for (handle, data) in mine {
        assert!(*pool.read(&handle).unwrap() == data);
        pool.free(handle).unwrap();
    }
}

fn use_pool(pool: &Pool, kept: &[(Handle, Vec<u8>)]) {
    pool.check();
    assert!(pool.len() >= kept.len() as u64);
    for (handle, data) in kept {
        assert!(*pool.read(handle).unwrap() == *data);
    }
    let mut rng = Rng::with_seed(99);
    let more: Vec<_> = (0..300).map(|_| data(&mut rng)).collect();
    let handles: Vec<_> = more.iter().map(|data| pool.store(data).unwrap()).collect();
    pool.compact();
    pool.tidy();
    for (handle, data) in handles.into_iter().zip(more) {
        assert!(*pool.read(&handle).unwrap() == data);
        pool.free(handle).unwrap();
    }
    pool.tidy();
    pool.check();
}

#[test]
fn a_child_has_a_whole_copy() {
    for geometry in [Geometry::default(), Geometry::Kernel(KernelGeometry::default())] {
        let pool = Pool::new(Config { geometry, ..Config::default() }).unwrap();
        pool.compact_in_background();
        let mut rng = Rng::with_seed(1);
        let kept: Vec<_> = (0..1000)
            .map(|_| {
                let data = data(&mut rng);
                (pool.store(&data).unwrap(), data)
            })
            .collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            for seed in 0..4 {
                let (pool, stop) = (&pool, &stop);
                scope.spawn(move || disturb(pool, seed, stop));
            }
            for round in 0..60 {
                in_child(|| {
                    use_pool(&pool, &kept);
                    if round % 20 == 0 {
                        // A grandchild, of a pool that was mended already.
                        in_child(|| use_pool(&pool, &kept));
                    }
                });
            }
        });
        pool.check();
        for (handle, data) in kept {
            assert!(*pool.read(&handle).unwrap() == data);
            pool.free(handle).unwrap();
        }
        pool.trim();
        pool.check();
        assert_eq!(pool.pages().used(), 0);
    }
}

#[test]
fn a_forgotten_child_costs_nothing() {
    let pool = Pool::new(Config::default()).unwrap();
    let handle = pool.store(b"untouched").unwrap();
    for _ in 0..50 {
        in_child(|| {});
    }
    assert_eq!(&*pool.read(&handle).unwrap(), b"untouched");
    pool.free(handle).unwrap();
}
