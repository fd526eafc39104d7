//! In a process with one thread, blocks are decompressed in place. In a process with several
//! threads, an access finds a complete block or faults.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use testkit::child::in_child;
use testkit::{scaled, seed};
use zmem::{BackendKind, BlockOrder, Options, Region};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const BACKENDS: [BackendKind; 2] = [BackendKind::Signal, BackendKind::SignalMappings];

fn region(bytes: usize, backend: BackendKind, limit: Option<u64>) -> Region {
    let mut region = Region::new(bytes, Options { limit, backend, ..Options::default() }).unwrap();
    write(&mut region, 1);
    region
}

/// Fills each page with words that contain the page's number and `round`.
fn write(region: &mut Region, round: u64) {
    for (nth, page) in region.chunks_mut(PAGE).enumerate() {
        let word = (nth as u64) << 32 | round;
        page.chunks_mut(8).for_each(|place| place.copy_from_slice(&word.to_le_bytes()));
        // With these bytes, the page is not same-filled.
        page[2000..2008].fill(7);
    }
}

fn verify(region: &Region, round: u64) {
    for nth in 0..region.len() / PAGE {
        verify_page(region, nth, round);
    }
}

fn verify_page(region: &Region, nth: usize, round: u64) {
    let word = ((nth as u64) << 32 | round).to_le_bytes();
    for (at, place) in region[nth * PAGE..(nth + 1) * PAGE].chunks(8).enumerate() {
        let expected = if at == 250 { [7; 8] } else { word };
        assert_eq!(place, expected, "page {nth}, word {at}");
    }
}

/// Evicts all blocks, and fills them again. Returns the numbers of blocks that were filled, that
/// were filled in place, and that were put in probation.
fn filled(region: &Region) -> (u64, u64, u64) {
    let before = region.stats();
    region.reclaim(region.len());
    verify(region, 1);
    let now = region.stats();
    (now.filled - before.filled, now.in_place - before.in_place, now.marked - before.marked)
}

fn assert_alone(region: &Region) {
    // After a failed attempt to be alone, a thread makes no further attempt during its next faults.
    filled(region);
    let (all, in_place, marked) = filled(region);
    assert!(all > 0 && all == in_place, "{in_place} of {all} in place");
    assert_eq!(marked, 0, "of {all} blocks");
}

fn assert_not_alone(region: &Region) {
    let (all, in_place, marked) = filled(region);
    assert!(all > 0 && in_place == 0, "{in_place} of {all} in place");
    assert!(marked >= all, "{marked} of {all} marked");
}

/// Calls `work` while another thread exists.
fn beside_another(work: impl FnOnce()) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            while !is_done.load(Relaxed) {
                thread::park();
            }
        });
        work();
        is_done.store(true, Relaxed);
        other.thread().unpark();
    });
}

/// Waits until the kernel counts one thread. For some time, the kernel also counts threads that
/// were joined.
fn wait_until_alone() {
    testkit::wait::until("other threads are gone", || {
        std::fs::read_dir("/proc/self/task").unwrap().count() == 1
    });
}

fn close_all_descriptors() {
    // SAFETY: no code in this process needs these descriptors any more.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
}

#[test]
fn a_thread_alone_is_seen_to_be_and_not_with_others() {
    in_child(|| {
        for backend in BACKENDS {
            let region = region(4 * MIB, backend, None);
            assert_alone(&region);
            beside_another(|| {
                assert_not_alone(&region);
                close_all_descriptors();
                assert_not_alone(&region);
                // A child lacks the other threads of its parent.
                in_child(|| assert_alone(&region));
                assert_not_alone(&region);
            });
            wait_until_alone();
            assert_alone(&region);
            close_all_descriptors();
            let _files: Vec<_> =
                (0..8).map(|_| std::fs::File::open("/proc/self/status").unwrap()).collect();
            assert_alone(&region);
            in_child(|| {
                assert_alone(&region);
                beside_another(|| assert_not_alone(&region));
                wait_until_alone();
                assert_alone(&region);
            });
            region.check();
        }
    });
}

/// Pager threads access no managed memory. So a program's only thread is alone even if several
/// regions have pager threads.
#[test]
fn threads_that_evict_are_none_who_look() {
    in_child(|| {
        let limit = Some(64 * MIB as u64);
        let first = region(4 * MIB, BackendKind::Best, limit);
        let regions: Vec<_> = (0..3).map(|_| region(4 * MIB, BackendKind::Best, limit)).collect();
        // A new pager thread counts itself only after some time.
        let is_alone = || filled(&first).1 > 0;
        testkit::wait::until("only threads that evict are left", is_alone);
        assert_alone(&first);
        beside_another(|| assert_not_alone(&first));
        in_child(|| testkit::wait::until("the child's own", || filled(&first).1 > 0));
        drop(regions);
        testkit::wait::until("the others have ended", is_alone);
        assert_alone(&first);
    });
}

/// Threads begin and end while all threads cause evictions and fills.
#[test]
fn no_thread_that_comes_or_goes_sees_half_a_block() {
    in_child(|| {
        for (nth, backend) in BACKENDS.into_iter().enumerate() {
            let limit = [None, Some(6 * MIB as u64)][nth];
            let region = region(12 * MIB, backend, limit);
            let mut rng = Rng::with_seed(seed(nth as u64));
            let look = |seed: u64, count: usize| {
                let mut rng = Rng::with_seed(seed);
                for _ in 0..count {
                    verify_page(&region, rng.usize(..region.len() / PAGE), 1);
                }
            };
            for _ in 0..scaled(200, 10_000) {
                region.reclaim(rng.usize(..8 * MIB));
                thread::scope(|scope| {
                    for _ in 0..rng.usize(..4) {
                        let (seed, count) = (rng.u64(..), rng.usize(..200));
                        scope.spawn(move || look(seed, count));
                        look(rng.u64(..), rng.usize(..20));
                    }
                });
                look(rng.u64(..), rng.usize(..100));
            }
            region.check();
            let stats = region.stats();
            let (all, in_place) = (stats.filled, stats.in_place);
            assert!(in_place > 0 && in_place < all, "{in_place} of {all} in place");
        }
    });
}

/// Blocks of several pages, and blocks that one fault fills together, keep their contents.
#[test]
fn blocks_of_all_sizes_come_back_in_place() {
    in_child(|| {
        let blocks = [
            BlockOrder::Fixed(0),
            BlockOrder::Fixed(2),
            BlockOrder::Fixed(4),
            BlockOrder::Adaptive(2),
        ];
        for block in blocks {
            for codec in ["lz4", "zstd"] {
                let codec = zcomp::by_name(codec).unwrap();
                let options = Options { block, codec, ..Options::default() };
                let mut region = Region::new(4 * MIB, options).unwrap();
                let mut rng = Rng::with_seed(seed(9));
                for round in 0..scaled(8, 200) as u64 {
                    write(&mut region, round);
                    region.reclaim(usize::MAX >> 1);
                    for _ in 0..100 {
                        verify_page(&region, rng.usize(..region.len() / PAGE), round);
                    }
                    verify(&region, round);
                }
                let stats = region.stats();
                assert!(stats.in_place > 0 && stats.in_place == stats.filled, "{stats:?}");
                region.check();
            }
        }
    });
}

/// The inputs and the result of a child that shares memory.
struct Shared<'r> {
    region: &'r Region,
    closes: bool,
    sum: AtomicU64,
}

/// Reads all pages in a process that shares this process's memory.
extern "C" fn look_as_child(shared: *mut c_void) -> i32 {
    // SAFETY: the caller waits until the child has ended, so the pointer is valid.
    let shared = unsafe { &*shared.cast::<Shared<'_>>() };
    if shared.closes {
        close_all_descriptors();
    }
    let words = shared.region.chunks(PAGE).map(|page| u64::from(page[4]) + u64::from(page[4095]));
    shared.sum.store(words.sum(), Relaxed);
    0
}

/// Runs `look_as_child` in a process that shares this memory, as a child of `vfork` does, and waits
/// for the process. Returns the sum that the process computes.
fn look_as_by_vfork(region: &Region, closes: bool) -> u64 {
    let shared = Shared { region, closes, sum: AtomicU64::new(0) };
    let mut stack = vec![0u128; 16 << 10];
    // SAFETY: the child has its own stack, and ends before this function returns. The child only
    // reads memory, and closes descriptors in its own table.
    unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = stack.as_mut_ptr_range().end.cast();
        let child = libc::clone(look_as_child, top, flags, (&raw const shared).cast_mut().cast());
        assert!(child > 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "the child failed");
    }
    shared.sum.into_inner()
}

/// A child of `vfork` is alone only if its parent has no other threads, because the parent's
/// threads continue to run. A file in /proc that the child opens does not show the parent's
/// threads.
#[test]
fn a_child_of_vfork_counts_its_parents_threads() {
    in_child(|| {
        let region = region(4 * MIB, BackendKind::Best, None);
        let expected = (0..region.len() / PAGE).map(|nth| nth as u64 % 256).sum::<u64>();
        assert_alone(&region);
        for closes in [false, true] {
            let in_place = || {
                region.reclaim(region.len());
                let before = region.stats();
                assert_eq!(look_as_by_vfork(&region, closes), expected);
                assert!(region.stats().filled > before.filled);
                region.stats().in_place - before.in_place
            };
            assert_eq!(in_place() > 0, !closes);
            beside_another(|| assert_eq!(in_place(), 0));
            wait_until_alone();
            verify(&region, 1);
            assert_alone(&region);
        }
        region.check();
    });
}
