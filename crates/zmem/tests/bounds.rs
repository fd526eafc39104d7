//! What a region takes of the system, as others see it: memory and mappings.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use std::fs::read_to_string;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use testkit::{is_long, scaled, seed};
use zmem::{BackendKind, BlockOrder, Options, Region};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

fn mappings() -> usize {
    read_to_string("/proc/self/maps").unwrap().lines().count()
}

fn mappings_max() -> usize {
    read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse::<usize>().unwrap() / 2
}

/// Pages touched and evicted in random order: the worst there is for mappings.
#[test]
fn mappings_stay_below_half_of_what_may_be() {
    let cases = [
        (BackendKind::Signal, scaled(256, 4096) * MIB, BlockOrder::Fixed(0), Some(64 * MIB as u64)),
        (BackendKind::Signal, scaled(256, 4096) * MIB, BlockOrder::Fixed(0), None),
        (BackendKind::SignalMappings, 48 * MIB, BlockOrder::Fixed(0), Some(8 * MIB as u64)),
        (BackendKind::SignalMappings, 256 * MIB, BlockOrder::Fixed(4), Some(16 * MIB as u64)),
    ];
    let mut rng = Rng::with_seed(seed(4));
    for (backend, bytes, block, limit) in cases {
        let mut region =
            Region::new(bytes, Options { backend, block, limit, ..Options::default() }).unwrap();
        let (pages, mut peak) = (bytes / PAGE, 0);
        for nth in 0..pages * 3 / 2 {
            region[rng.usize(..pages) * PAGE] = 1;
            if nth % 1000 == 0 {
                peak = peak.max(mappings());
            }
            if limit.is_none() && nth % 5000 == 0 {
                region.reclaim(8 * MIB);
            }
        }
        peak = peak.max(mappings());
        println!("{backend:?}, {block:?}, {limit:?}: {peak} mappings");
        assert!(peak <= mappings_max(), "{peak}");
        region.check();
    }
    let refused = Region::new(
        4096 * MIB,
        Options { backend: BackendKind::SignalMappings, ..Options::default() },
    );
    assert!(refused.is_err(), "each of its blocks may be a mapping");
}

/// Resident bytes of a process.
fn resident(process: i32) -> Option<u64> {
    let text = read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
}

/// Fills a region with what compresses to a third or so, and goes over it in order and at random.
fn work(limit: u64, block: BlockOrder, threads: usize) {
    let options = Options { limit: Some(limit), block, ..Options::default() };
    let region = Region::new(160 * MIB, options).unwrap();
    // SAFETY: on a page, and nobody uses the region but by these words.
    let words: &[AtomicU64] =
        unsafe { std::slice::from_raw_parts(region.as_ptr().cast(), region.len() / 8) };
    thread::scope(|scope| {
        for own in 0..threads {
            scope.spawn(move || {
                let mut rng = Rng::with_seed(testkit::seed_of(own as u64));
                let part = &words[words.len() / threads * own..words.len() / threads * (own + 1)];
                for word in part.iter().step_by(4) {
                    word.store(rng.u64(..) & 0xffff_ffff, Relaxed);
                }
                for _ in 0..scaled(20_000, 400_000) {
                    let at = rng.usize(..part.len());
                    part[at].store(rng.u64(..1 << 20), Relaxed);
                }
            });
        }
    });
    let stats = region.stats();
    println!("held {}, at most {}, of {limit}", stats.held, stats.held_max);
}

#[test]
fn the_resident_size_stays_within_the_limit_and_a_twentieth() {
    let limit = 64 * MIB as u64;
    for (block, threads) in [
        (BlockOrder::Fixed(0), 1),
        (BlockOrder::Fixed(0), 8),
        (BlockOrder::Fixed(2), 2),
        (BlockOrder::Fixed(4), 4),
        (BlockOrder::Adaptive(2), 2),
    ] {
        // SAFETY: the child does nothing but this test's work, and never returns.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // What the process itself is made of is not the region's.
            thread::sleep(Duration::from_millis(50));
            work(limit, block, threads);
            // SAFETY: it ends the child.
            unsafe { libc::_exit(0) };
        }
        thread::sleep(Duration::from_millis(20));
        let before = resident(child).unwrap();
        let (is_done, mut status) = (AtomicBool::new(false), 0);
        let peak = thread::scope(|scope| {
            let poller = scope.spawn(|| {
                let mut peak = 0;
                while !is_done.load(Relaxed) {
                    peak = peak.max(resident(child).unwrap_or(0));
                    thread::sleep(Duration::from_millis(if is_long() { 10 } else { 2 }));
                }
                peak
            });
            // SAFETY: the status is here.
            unsafe { libc::waitpid(child, &mut status, 0) };
            is_done.store(true, Relaxed);
            poller.join().unwrap()
        });
        assert_eq!(status, 0, "the child failed");
        let share = (peak - before) as f64 / limit as f64;
        println!("{block:?}, {threads} threads: peak {share:.3} of the limit");
        assert!((0.7..1.05).contains(&share), "{block:?}, {threads}: {share}");
    }
}
