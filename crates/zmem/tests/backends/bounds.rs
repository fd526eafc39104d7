//! The numbers of bytes and mappings that the kernel counts for a region stay within their bounds.

use crate::{MIB, PAGE, backends, for_each_backend, is_signal, turn};
use fastrand::Rng;
use std::fs::read_to_string;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use testkit::child::{Child, in_child};
use testkit::{is_long, mappings_max, scaled, seed};
use zmem::{BackendKind, BlockOrder, Options, Region};

fn mappings() -> usize {
    read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Accesses and evictions in random order create the most mappings.
#[test]
fn mappings_stay_below_half_of_what_may_be() {
    let _turn = turn();
    let mut cases = vec![
        (BackendKind::Signal, scaled(128, 4096) * MIB, BlockOrder::Fixed(0), Some(32 * MIB as u64)),
        (BackendKind::Signal, scaled(128, 4096) * MIB, BlockOrder::Fixed(0), None),
        (BackendKind::SignalMappings, 48 * MIB, BlockOrder::Fixed(0), Some(8 * MIB as u64)),
        (BackendKind::SignalMappings, 256 * MIB, BlockOrder::Fixed(4), Some(16 * MIB as u64)),
        // The blocks of this region are larger than the requested 4096 bytes.
        (BackendKind::SignalMappings, 300 * MIB, BlockOrder::Fixed(0), Some(32 * MIB as u64)),
        (BackendKind::SignalRemap, 48 * MIB, BlockOrder::Fixed(0), Some(8 * MIB as u64)),
    ];
    let of_userfaultfd = backends().into_iter().filter(|backend| !is_signal(*backend));
    cases.extend(
        of_userfaultfd.map(|kind| (kind, 64 * MIB, BlockOrder::Fixed(0), Some(16 * MIB as u64))),
    );
    let mut rng = Rng::with_seed(seed(4));
    for (backend, bytes, block, limit) in cases {
        let before = mappings();
        let options = Options { backend, block, limit, ..Options::default() };
        let mut region = Region::new(bytes, options).unwrap();
        let (pages, mut peak) = (bytes / PAGE, 0);
        // A short run accesses at most half of the pages, which is enough to reach the limit.
        let short = (bytes / region.stats().block * 4).min(pages / 2);
        for nth in 0..scaled(short, pages * 3 / 2) {
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
        assert!(peak <= mappings_max() / 2, "{peak}");
        // A userfaultfd needs mappings for memory, staging, tables, a device and threads, but none
        // for blocks.
        assert!(is_signal(backend) || peak < before + 200, "{peak}, {before} before");
        region.check();
    }
    let of = |bytes| {
        let options = Options { backend: BackendKind::SignalMappings, ..Options::default() };
        Region::new(bytes, options).map(|region| region.stats().block)
    };
    assert_eq!(of(32 * MIB).unwrap(), PAGE);
    assert!(of(mappings_max() * PAGE).unwrap() > PAGE, "each of its blocks may be a mapping");
    assert!(of(mappings_max() * 2 * MIB).is_err(), "a mapping for every 2 MiB is too many");
}

/// After `mremap` has moved a block, the kernel merges the block and its neighbours into one
/// mapping.
#[test]
fn moved_neighbours_are_one_mapping() {
    // The test runs in a child, because regions of other tests would change the number of mappings.
    in_child(|| {
        let options = Options { backend: BackendKind::SignalRemap, ..Options::default() };
        let mut region = Region::new(16 * MIB, options).unwrap();
        let bytes: Vec<_> = (0..region.len()).map(|nth| (nth / 64) as u8 | 1).collect();
        region.copy_from_slice(&bytes);
        let before = mappings();
        assert_eq!(region.reclaim(usize::MAX >> 1), region.len());
        let mut pages: Vec<_> = (0..region.len() / PAGE).collect();
        Rng::with_seed(seed(5)).shuffle(&mut pages);
        assert!(pages.iter().all(|page| region[page * PAGE] == bytes[page * PAGE]));
        let after = mappings();
        assert!(after < before + 64, "{before} mappings, and {after} when all was moved");
        assert!(*region == *bytes);
    });
}

/// Returns the number of resident bytes of a process, without the pages of files, which do not
/// belong to the region. The file `smaps` is not used, because the kernel computes it address by
/// address. If a page moves during the computation, it could be counted twice.
fn resident(process: i32) -> Option<u64> {
    let text = read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
}

/// Fills a region in order with data that compress to a third, and then writes to random words.
fn work(bytes: usize, options: Options, threads: usize) {
    let limit = options.limit.unwrap();
    let region = Region::new(bytes, options).unwrap();
    // SAFETY: the region begins at a page boundary, and is used only through these words.
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
                for _ in 0..scaled(2_500, 50_000) {
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
    for_each_backend(|backend| {
        let all = [
            (BlockOrder::Fixed(0), 8),
            (BlockOrder::Fixed(4), 4),
            (BlockOrder::Adaptive(2), 2),
            (BlockOrder::Fixed(0), 1),
            (BlockOrder::Fixed(2), 2),
        ];
        let most = match (is_long(), backend) {
            (true, _) => all.len(),
            (false, BackendKind::Signal) => 2,
            _ => 1,
        };
        // With these backends, each block may be a separate mapping.
        let is_small = [BackendKind::SignalMappings, BackendKind::SignalRemap].contains(&backend);
        let (bytes, limit) = match is_small {
            true => (48, 20),
            false if is_long() => (160, 64),
            false => (64, 32),
        };
        for &(block, threads) in &all[..most] {
            let limit = (limit * MIB) as u64;
            let options = Options { limit: Some(limit), backend, block, ..Options::default() };
            let share = peak_of_work(bytes * MIB, options, threads) as f64 / limit as f64;
            println!("{block:?}, {threads} threads: peak {share:.3} of the limit");
            assert!((0.7..1.05).contains(&share), "{backend:?}, {block:?}, {threads}: {share}");
        }
    });
}

/// Returns the maximum of a child's resident bytes during a call of `work`, less the bytes before
/// the call.
fn peak_of_work(bytes: usize, options: Options, threads: usize) -> u64 {
    let child = Child::fork(|| {
        // During the sleep, the parent measures the child's memory without a region.
        thread::sleep(Duration::from_millis(50));
        work(bytes, options, threads);
    });
    thread::sleep(Duration::from_millis(20));
    let (process, is_done) = (child.id(), AtomicBool::new(false));
    let before = resident(process).unwrap();
    let peak = thread::scope(|scope| {
        let poller = scope.spawn(|| {
            let mut peak = 0;
            while !is_done.load(Relaxed) {
                peak = peak.max(resident(process).unwrap_or(0));
                thread::sleep(Duration::from_millis(if is_long() { 10 } else { 2 }));
            }
            peak
        });
        let waited = catch_unwind(AssertUnwindSafe(|| child.wait()));
        is_done.store(true, Relaxed);
        waited.unwrap_or_else(|cause| resume_unwind(cause));
        poller.join().unwrap()
    });
    peak - before
}
