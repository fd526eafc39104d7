//! Regions that many threads use while blocks are evicted and filled. No write is lost, and threads
//! read only data that were written.

use crate::{MIB, PAGE, for_each_option};
use fastrand::Rng;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{is_long, seed};
use zmem::{BlockOrder, Options, Region};

/// A region, as words of 8 bytes that several threads are allowed to read and write at the same
/// time.
struct Words<'r>(&'r [AtomicU64]);

impl<'r> Words<'r> {
    fn of(region: &'r Region) -> Self {
        // SAFETY: the region begins at a page boundary, has this length, and is used only through
        // these words.
        Words(unsafe { std::slice::from_raw_parts(region.as_ptr().cast(), region.len() / 8) })
    }
}

fn time() -> Duration {
    if is_long() { Duration::from_secs(20) } else { Duration::from_millis(250) }
}

const BLOCKS: [BlockOrder; 4] =
    [BlockOrder::Fixed(0), BlockOrder::Fixed(2), BlockOrder::Adaptive(2), BlockOrder::Fixed(4)];

/// Returns whether enough blocks were evicted and filled for a meaningful test. On a busy machine,
/// this can take longer than `time`.
fn is_enough(region: &Region) -> bool {
    let stats = region.stats();
    stats.filled > 10 && stats.evicted > 10
}

/// Writes pages that only this thread uses, and compares these pages with a copy.
fn play(region: &Region, own: usize, threads: usize, seed: u64, end: Instant) {
    let words = Words::of(region).0;
    let pages = region.len() / PAGE / threads;
    let mut rng = Rng::with_seed(seed);
    let mut shadow: Vec<Option<Box<[u64]>>> = vec![None; pages];
    while Instant::now() < end || !is_enough(region) {
        let nth = rng.usize(..pages);
        let at = (nth * threads + own) * PAGE / 8;
        let page = &words[at..at + PAGE / 8];
        match rng.u32(..10) {
            0..=2 => {
                let copy = shadow[nth].get_or_insert_with(|| vec![0; PAGE / 8].into());
                for _ in 0..rng.usize(1..20) {
                    let (at, value) = (rng.usize(..PAGE / 8), rng.u64(..1000));
                    copy[at] = value;
                    page[at].store(value, Relaxed);
                }
            }
            3 if rng.u32(..8) == 0 => {
                let bytes = at * 8..at * 8 + PAGE;
                // SAFETY: only this thread uses the page.
                unsafe { region.dont_need_shared(bytes).unwrap() };
                shadow[nth] = None;
            }
            3 if rng.u32(..8) == 0 => {
                let locked = region.lock(at * 8..at * 8 + PAGE).unwrap();
                page[7].store(7, Relaxed);
                shadow[nth].get_or_insert_with(|| vec![0; PAGE / 8].into())[7] = 7;
                drop(locked);
            }
            _ => {
                let zeros = [0; PAGE / 8];
                let copy = shadow[nth].as_deref().unwrap_or(&zeros);
                for (at, expected) in copy.iter().enumerate() {
                    let found = page[at].load(Relaxed);
                    assert_eq!(found, *expected, "page {nth} of {own}, word {at}");
                }
            }
        }
    }
}

#[test]
fn what_threads_write_is_what_they_read() {
    const THREADS: usize = 8;
    let seed = seed(1);
    for_each_option(&BLOCKS, |options| {
        let limit = Some(9 * MIB as u64);
        let region = Region::new(24 * MIB, Options { limit, ..options }).unwrap();
        let end = Instant::now() + time();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let players = [0; THREADS].iter().enumerate().map(|(own, _)| {
                let region = &region;
                scope.spawn(move || play(region, own, THREADS, seed ^ own as u64, end))
            });
            let players: Vec<_> = players.collect();
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    region.reclaim(MIB);
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let ended: Vec<_> = players.into_iter().map(|player| player.join()).collect();
            done.store(true, Relaxed);
            ended.into_iter().for_each(|ended| ended.unwrap());
        });
        region.check();
        println!("{:?}", region.stats());
    });
}

/// Blocks are zeroed, accessed and zeroed again while the evicting thread reads them.
#[test]
fn blocks_may_be_dropped_while_they_go() {
    for_each_option(&BLOCKS[..1], |options| {
        let region = Region::new(64 * PAGE, options).unwrap();
        let words = Words::of(&region).0;
        let end = Instant::now() + time();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    region.advise(0..64 * PAGE, zmem::Advice::Cold).unwrap();
                }
            });
            while Instant::now() < end {
                words.iter().step_by(64).for_each(|word| word.store(7, Relaxed));
                // SAFETY: no reference to bytes of the region exists.
                unsafe { region.dont_need_shared(0..64 * PAGE).unwrap() };
                assert!(words.iter().step_by(512).all(|word| word.load(Relaxed) == 0));
            }
            done.store(true, Relaxed);
        });
        region.check();
    });
}

/// Several threads add to counters in blocks that are evicted again and again. No addition is lost.
#[test]
fn no_store_is_lost_while_a_block_goes() {
    for_each_option(&BLOCKS[..2], |options| {
        let region = Region::new(MIB, options).unwrap();
        let words = Words::of(&region).0;
        let (end, added) = (Instant::now() + time(), AtomicU64::new(0));
        thread::scope(|scope| {
            for start in 0..6 {
                let added = &added;
                scope.spawn(move || {
                    let mut count = 0;
                    for at in (start..).step_by(37) {
                        words[at * 64 % words.len()].fetch_add(1, Relaxed);
                        count += 1;
                        if count % 64 == 0 && Instant::now() > end {
                            break;
                        }
                    }
                    added.fetch_add(count, Relaxed);
                });
            }
            while Instant::now() < end {
                region.reclaim(MIB);
            }
        });
        let sum: u64 = words.iter().map(|word| word.load(Relaxed)).sum();
        assert_eq!(sum, added.load(Relaxed));
        region.check();
    });
}

/// If several threads fault on a block at the same time, one of them fills the block, and all read
/// the complete block.
#[test]
fn one_block_is_brought_back_once_for_all() {
    for_each_option(&BLOCKS[3..], bring_back_for_all);
}

fn bring_back_for_all(options: Options) {
    const THREADS: usize = 16;
    let rounds = if is_long() { 10_000 } else { 200 };
    let region = Region::new(16 * PAGE, options).unwrap();
    let words = Words::of(&region).0;
    let [round, ready, wrong] = [const { AtomicU32::new(0) }; 3];
    let filled_before = region.stats().filled;
    thread::scope(|scope| {
        for own in 0..THREADS {
            let (round, ready, wrong) = (&round, &ready, &wrong);
            scope.spawn(move || {
                for nth in 1..=rounds {
                    while round.load(Relaxed) < nth {
                        thread::yield_now();
                    }
                    let at = own * words.len() / THREADS;
                    let is_wrong = words[at].load(Relaxed) != u64::from(nth);
                    wrong.fetch_add(is_wrong.into(), Relaxed);
                    ready.fetch_add(1, Relaxed);
                }
            });
        }
        for nth in 1..=rounds {
            words.iter().for_each(|word| word.store(u64::from(nth), Relaxed));
            region.reclaim(16 * PAGE);
            ready.store(0, Relaxed);
            round.store(nth, Relaxed);
            while ready.load(Relaxed) < THREADS as u32 {
                thread::yield_now();
            }
        }
    });
    assert_eq!(wrong.into_inner(), 0, "words that were not what was written");
    let filled = region.stats().filled - filled_before;
    assert!(filled <= 2 * u64::from(rounds), "{filled}");
    region.check();
}
