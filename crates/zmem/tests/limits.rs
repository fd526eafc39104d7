//! If a limit is set or blocks become evictable, blocks are evicted even if no thread faults.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use testkit::child::in_child;
use testkit::load::Stop;
use testkit::scaled;
use testkit::wait::until;
use zmem::Advice::Cold;
use zmem::{BlockOrder, Error, Options, Region};

const MIB: usize = 1 << 20;
const LIMIT: u64 = 8 * MIB as u64;

fn fill(bytes: &mut [u8]) {
    bytes.iter_mut().enumerate().for_each(|(nth, byte)| *byte = (nth / 64) as u8 | 1);
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(nth, byte)| *byte == (nth / 64) as u8 | 1)
}

fn until_it_is_kept(region: &Region) {
    until("no more is held than the limit allows", || region.stats().held <= LIMIT);
    region.check();
    assert!(is_whole(region));
}

#[test]
fn a_limit_that_is_set_is_kept_though_nothing_faults() {
    let mut region = Region::new(16 * MIB, Options::default()).unwrap();
    fill(&mut region);
    region.set_limit(Some(LIMIT)).unwrap();
    until_it_is_kept(&region);
    region.set_limit(None).unwrap();
    assert!(is_whole(&region));
    in_child(|| {
        region.set_limit(Some(LIMIT)).unwrap();
        until_it_is_kept(&region);
    });
}

#[test]
fn a_limit_below_what_an_empty_region_takes_is_refused() {
    let region = Region::new(MIB, Options::default()).unwrap();
    let refused = region.set_limit(Some(100_000));
    assert!(matches!(refused, Err(Error::Limit { limit: 100_000, .. })), "{refused:?}");
    assert_eq!(region.stats().limit, None);
}

#[test]
fn a_limit_of_memory_that_is_in_use_is_kept_though_nothing_faults() {
    let mut memory = vec![0u8; 16 * MIB];
    fill(&mut memory);
    let start = NonNull::from(&mut memory[..]).cast();
    let options = Options { limit: Some(LIMIT), ..Options::default() };
    // SAFETY: the C library maps an allocation of this size separately. No other code uses the
    // memory until `region` is dropped.
    let region = unsafe { Region::manage(start, 16 * MIB, options).unwrap() };
    until("no more is held than the limit allows", || region.stats().held <= LIMIT);
    region.check();
    drop(region);
    assert!(is_whole(&memory));
}

#[test]
fn what_is_locked_no_more_goes_though_nothing_faults() {
    let options = Options { limit: Some(LIMIT), ..Options::default() };
    let mut region = Region::new(16 * MIB, options).unwrap();
    fill(&mut region);
    let locked = region.lock(0..16 * MIB).unwrap();
    region.reclaim(MIB);
    assert!(region.stats().held > LIMIT);
    drop(locked);
    until_it_is_kept(&region);
}

/// Returns the processor time that all threads of this process have used.
fn processor_time() -> Duration {
    // SAFETY: zeros are a valid time, which the call overwrites.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes only to `time`.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Fills a region with data that do not compress. Calls `looks` while the limit is exceeded.
fn fill_beyond_limit(block: BlockOrder, looks: fn(&Region)) -> Region {
    let options = Options { limit: Some(LIMIT), block, ..Options::default() };
    let mut region = Region::new(32 * MIB, options).unwrap();
    let mut rng = Rng::with_seed(testkit::seed(71));
    region.chunks_mut(8).for_each(|word| word.copy_from_slice(&rng.u64(..).to_le_bytes()));
    looks(&region);
    assert!(region.stats().held > 3 * LIMIT, "{:?}", region.stats());
    region
}

/// Data that become compressible later are evicted, although the pager does not notice writes to
/// resident memory.
#[test]
fn what_gets_smaller_later_goes_though_nothing_faults() {
    let looks: [fn(&Region); 3] = [
        |_| (),
        |region| _ = region.reclaim(MIB),
        |region| region.advise(0..32 * MIB, Cold).unwrap(),
    ];
    for block in [BlockOrder::Fixed(0), BlockOrder::Fixed(4)] {
        for looks in looks {
            let mut region = fill_beyond_limit(block, looks);
            fill(&mut region);
            until_it_is_kept(&region);
        }
    }
}

#[test]
fn a_limit_that_can_not_be_kept_costs_little_while_nothing_happens() {
    in_child(|| {
        let region = fill_beyond_limit(BlockOrder::Fixed(0), |_| ());
        thread::sleep(Duration::from_secs(2));
        let (began, before) = (processor_time(), region.stats().incompressible);
        thread::sleep(Duration::from_secs(2));
        let spent = processor_time() - began;
        println!("{spent:?} in 2 s, {} blocks", region.stats().incompressible - before);
        assert!(spent < Duration::from_millis(500), "{spent:?}");
    });
}

/// Simultaneous faults, each of up to 64 blocks, exceed the limit by at most an eighth, even while
/// forks stop the pager thread.
#[test]
fn faults_at_once_do_not_pass_the_limit_together() {
    in_child(|| {
        let of = |limit| Options { limit: Some(limit), ..Options::default() };
        let refused = Region::new(16 * MIB, of(1)).map(drop);
        let Err(Error::Limit { needed, .. }) = refused else { panic!("{refused:?}") };
        let limit = needed + (MIB / 2) as u64;
        let region = Region::new(16 * MIB, of(limit)).unwrap();
        // SAFETY: the region begins at a page boundary, and is used only through these words.
        let words: &[AtomicU64] =
            unsafe { std::slice::from_raw_parts(region.as_ptr().cast(), 16 * MIB / 8) };
        let pages: Vec<_> = words.chunks(512).collect();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = Stop(&stop);
            for own in 0..4 {
                let (pages, stop) = (&pages, &stop);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(testkit::seed_of(own));
                    while !stop.load(Relaxed) {
                        let first = rng.usize(..pages.len());
                        let some = pages.iter().skip(first).take(rng.usize(1..1000));
                        // Only a few words are written, so that the compressed data fit into the
                        // limit.
                        some.for_each(|page| page[own as usize].store(own, Relaxed));
                    }
                });
            }
            (0..scaled(100, 2000)).for_each(|_| in_child(|| ()));
        });
        let stats = region.stats();
        println!("at most {} of {limit}", stats.held_max);
        assert!(stats.held_max <= limit + limit / 8, "{limit}: {stats:?}");
        region.check();
    });
}

#[test]
fn who_is_refused_a_size_is_told_which_there_are() {
    let told = |bytes, order| {
        let options = Options { block: BlockOrder::Fixed(order), ..Options::default() };
        Region::new(bytes, options).map(drop).unwrap_err().to_string()
    };
    let needs =
        "a region can't have 0 bytes: it needs whole blocks of 4096 bytes, at a multiple of";
    assert_eq!(told(0, 0), format!("{needs} that"));
    let most = "a region can't have 17592186044416 bytes: less than 16 TiB are possible";
    assert!(told(1 << 44, 0).starts_with(most), "{}", told(1 << 44, 0));
    let order = "blocks of order 5 (131072 bytes) are not possible here; take an order from 0 to 4";
    assert_eq!(told(MIB, 5), format!("{order} (4096 to 65536 bytes)"));
    assert!(told(MIB, u32::MAX).contains("order 4294967295 (4096 << 4294967295 bytes)"));
}

#[test]
fn no_more_is_reclaimed_than_asked_for() {
    in_child(|| {
        for (block, bytes) in [(0, 4096), (4, 65536usize)] {
            let options = Options { block: BlockOrder::Fixed(block), ..Options::default() };
            let mut region = Region::new(8 * MIB, options).unwrap();
            fill(&mut region);
            // The only thread of a process evicts blocks that were not in probation.
            for is_alone in [true, false] {
                let _other = (!is_alone).then(|| thread::spawn(thread::park));
                for wanted in [1, bytes, 2 * bytes + 1, 5 * bytes, 3] {
                    let before = region.stats().resident;
                    let rounded = wanted.next_multiple_of(bytes);
                    assert_eq!(region.reclaim(wanted), rounded);
                    assert_eq!(region.stats().resident, before - rounded as u64);
                    region.check();
                }
            }
            assert!(region.stats().marked > 0);
            assert!(region.reclaim(usize::MAX) > 6 * MIB);
            assert_eq!(region.reclaim(1), 0);
            assert!(is_whole(&region));
        }
    });
}

#[test]
fn a_lock_of_nothing_locks_nothing() {
    let mut region = Region::new(MIB, Options::default()).unwrap();
    region.fill(1);
    let locked = region.lock(5000..5000).unwrap();
    assert_eq!(region.reclaim(MIB), MIB);
    drop(locked);
}

#[test]
fn dont_need_changes_nothing_where_a_block_is_locked() {
    let region = Region::new(MIB, Options::default()).unwrap();
    // SAFETY: the region has this length, and no reference to its bytes exists.
    unsafe { region.as_ptr().write_bytes(1, MIB) };
    let locked = region.lock(4 * 4096..5 * 4096).unwrap();
    // SAFETY: no reference to these bytes exists.
    let refused = unsafe { region.dont_need_shared(100..8 * 4096 + 100) };
    assert_eq!(refused, Err(Error::Locked { at: 4 * 4096, end: 5 * 4096 }));
    let message = "the block of bytes 16384 to 20480 is locked; end that lock first";
    assert_eq!(refused.unwrap_err().to_string(), message);
    assert!(region.iter().all(|&byte| byte == 1));
    // Block 4 is only partly in the range, so zeros are written to the block although it is locked.
    // SAFETY: no reference to these bytes exists.
    unsafe { region.dont_need_shared(4 * 4096 + 1..8 * 4096).unwrap() };
    drop(locked);
    // SAFETY: no reference to these bytes exists.
    unsafe { region.dont_need_shared(100..2 * 4096).unwrap() };
    let zeros = [100..2 * 4096, 4 * 4096 + 1..8 * 4096];
    let is_zero = |at: &usize| zeros.iter().any(|zeros| zeros.contains(at));
    assert!((0..MIB).all(|at| (region[at] == 0) == is_zero(&at)));
}
