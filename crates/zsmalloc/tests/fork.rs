//! A pool in a child after fork, while other threads of the parent use it (I8).
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use zsmalloc::{Config, Geometry, Handle, KernelGeometry, Pool};

/// Forks; the child does `work` and ends with 0, or with 1 if that panics or takes a minute.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the child calls nothing that a lost thread could have left locked but the pool, which is
    // what is tested, and the C library's allocator, which takes care of itself. It never returns.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork failed");
        if child == 0 {
            libc::alarm(60);
            let worked = catch_unwind(AssertUnwindSafe(work)).is_ok();
            libc::_exit(i32::from(!worked));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "the child failed");
    }
}

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

/// Ends the other threads, also when a child failed.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
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
