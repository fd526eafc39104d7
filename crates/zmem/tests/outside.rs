//! Tests of the public documentation of regions, written without knowledge of the code.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::ops::Range;
use std::time::{Duration, Instant};

use fastrand::Rng;
use testkit::child::in_child;
use zmem::{Advice, BackendKind, BlockOrder, Error, Fork, Locked, Options, Region};

const MIB: usize = 1 << 20;
const BACKENDS: [BackendKind; 4] = [
    BackendKind::Best,
    BackendKind::SignalMappings,
    BackendKind::SignalRemap,
    BackendKind::UserfaultfdSigbus,
];

fn with(backend: BackendKind) -> Options {
    Options { backend, ..Options::default() }
}

/// Returns a region with the lowest possible limit, or `None` if the system does not permit the
/// backend.
fn tight(bytes: usize, options: &Options) -> Option<Region> {
    let mut limit = 1;
    loop {
        match Region::new(bytes, Options { limit: Some(limit), ..options.clone() }) {
            Ok(region) => return Some(region),
            Err(Error::Limit { needed, .. }) if needed > limit => limit = needed,
            Err(Error::Userfaultfd { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn word(at: usize) -> u8 {
    1 + (at >> 9) as u8 % 7
}

/// At the lowest possible limit, blocks are evicted and filled again and again, and keep their
/// data.
#[test]
fn nothing_is_lost_at_the_least_limit() {
    for backend in BACKENDS.into_iter().chain([BackendKind::UserfaultfdSigbusProtected]) {
        let end = Instant::now() + Duration::from_millis(700);
        while Instant::now() < end {
            let Some(mut region) = tight(4 * MIB, &with(backend)) else { break };
            (0..4 * MIB).step_by(512).for_each(|at| region[at] = word(at));
            let lost = (0..4 * MIB).step_by(512).find(|at| region[*at] != word(*at));
            assert_eq!(lost, None, "{backend:?}, {:?}", region.stats());
        }
    }
}

/// The error about a limit contains the lowest possible limit.
#[test]
fn limit_needed_will_do() {
    let options = |limit| Options { limit: Some(limit), ..Options::default() };
    let Err(Error::Limit { limit: 1, needed }) = Region::new(MIB, options(1)) else { panic!() };
    Region::new(MIB, options(needed)).unwrap();
    assert!(Region::new(MIB, options(needed - 1)).is_err());
}

/// A process can have many small regions.
#[test]
fn hundred_small_regions() {
    in_child(|| {
        let regions = (0..100).map(|_| Region::new(5000, Options::default()).unwrap());
        let mut regions = regions.collect::<Vec<_>>();
        for (nth, region) in regions.iter_mut().enumerate() {
            region[nth] = 1;
            region.reclaim(5000);
        }
        assert!(regions.iter().enumerate().all(|(nth, region)| region[nth] == 1));
    });
}

/// An access to two blocks at once completes in a child, although the child begins above its limit.
#[test]
fn child_reads_across_blocks() {
    let mut region = tight(8 * MIB, &Options::default()).unwrap();
    let mut rng = Rng::with_seed(testkit::seed(3));
    region.chunks_mut(4096).for_each(|page| page[..2048].fill_with(|| rng.u8(..)));
    region.reclaim(usize::MAX);
    in_child(|| {
        // SAFETY: the alarm only ends a child that hangs.
        unsafe { libc::alarm(3) };
        for at in (4096..8 * MIB).step_by(4096) {
            // SAFETY: all bytes of the word are in the region.
            let word = unsafe { region.as_ptr().add(at - 4).cast::<u64>().read_unaligned() };
            std::hint::black_box(word);
        }
    });
}

#[test]
fn locks_are_counted_and_undone() {
    let mut region = Region::new(3 * 4096, Options::default()).unwrap();
    region.fill(9);
    for _ in 0..65535 {
        std::mem::forget(region.lock(4096..4097).unwrap());
    }
    let locked = Error::Locked { at: 4096, end: 8192 };
    assert_eq!(region.lock(0..3 * 4096).map(|_| ()), Err(locked.clone()));
    assert_eq!(region.reclaim(usize::MAX), 2 * 4096, "of a lock that failed nothing is left");
    assert_eq!(region.dont_need(0..3 * 4096), Err(locked));
    assert_eq!((region[0], region[4096], region[8192]), (9, 9, 9));
    assert_eq!(region.dont_need(4097..8192), Ok(()), "parts of locked blocks can be zeros");
    assert_eq!((region[4096], region[4097]), (9, 0));
    region.check();
}

/// A region and a copy of its contents.
struct Under {
    locks: Vec<Locked<'static>>,
    region: Box<Region>,
    copy: Vec<u8>,
    block: usize,
}

impl Drop for Under {
    fn drop(&mut self) {
        self.locks.clear();
    }
}

impl Under {
    fn draw(rng: &mut Rng) -> Option<Self> {
        let order = rng.u32(..=4);
        let unit = 4096 << order;
        let near = [1, unit, 2 * MIB, 3 * MIB, rng.usize(2..4 * MIB)][rng.usize(..5)];
        let bytes = (near + rng.usize(..3) - 1).max(1);
        let codec = ["lz4", "lz4", "zstd", "lz4hc"][rng.usize(..4)];
        let options = Options {
            block: [BlockOrder::Fixed, BlockOrder::Adaptive][rng.usize(..2)](order),
            codec: zcomp::by_name(codec).unwrap(),
            store_limit: rng.bool().then(|| rng.u64(1 << 16..1 << 20)),
            fork: Fork::Copied,
            checksums: rng.bool(),
            ..with(BACKENDS[rng.usize(..4)])
        };
        let region = Box::new(tight(bytes, &options)?);
        match rng.u8(..3) {
            0 => region.set_limit(None).unwrap(),
            1 => region.set_limit(region.stats().limit.map(|limit| limit + bytes as u64)).unwrap(),
            _ => {}
        }
        let block = region.stats().block;
        Some(Under { locks: vec![], region, copy: vec![0; bytes], block })
    }

    fn range(&self, rng: &mut Rng) -> Range<usize> {
        let edge = |rng: &mut Rng| {
            let unit = [1, 4096, self.block, 64 * self.block, 2 * MIB][rng.usize(..5)];
            let at = rng.usize(..=self.copy.len()).next_multiple_of(unit);
            (at + rng.usize(..3)).saturating_sub(1).min(self.copy.len())
        };
        let (one, other) = (edge(rng), edge(rng));
        let most = [1, 5000, 300_000, 4 * MIB][rng.usize(..4)];
        one.min(other)..one.max(other).min(one.min(other) + most)
    }

    fn compare(&self, range: Range<usize>) {
        let wrong = range.clone().find(|at| self.region[*at] != self.copy[*at]);
        assert_eq!(wrong, None, "{range:?}, {:?}", self.region.stats());
    }

    fn event(&mut self, rng: &mut Rng) {
        let range = self.range(rng);
        match rng.u8(..16) {
            0..=4 => {
                let data = testkit::contents::data(rng, range.len());
                self.copy[range.clone()].copy_from_slice(&data);
                // SAFETY: the range is in the region, and no other code uses it.
                let to = unsafe { self.region.as_ptr().add(range.start) };
                // SAFETY: the range is in the region, no other code uses it, and the data have the
                // same length.
                unsafe { to.copy_from(data.as_ptr(), data.len()) };
            }
            5..=7 => self.compare(range),
            8 => assert_eq!(self.region.reclaim(range.len()) % self.block, 0),
            9 => self.region.prefetch(range).unwrap(),
            10 => self.region.advise(range, Advice::Cold).unwrap(),
            11 => self.region.advise(range, Advice::Hot).unwrap(),
            // SAFETY: only the locks of the region contain references to the region.
            12 => match unsafe { self.region.dont_need_shared(range.clone()) } {
                Ok(()) => self.copy[range].fill(0),
                Err(Error::Locked { .. }) => {}
                Err(error) => panic!("{error}"),
            },
            13 if self.locks.len() < 4 => {
                // SAFETY: the region stays in its box, and its locks are dropped before the box.
                let region: &'static Region = unsafe { &*std::ptr::from_ref(&*self.region) };
                self.locks.push(region.lock(range).unwrap());
            }
            13 => drop(self.locks.swap_remove(rng.usize(..self.locks.len()))),
            14 => {
                let past = range.start..self.copy.len() + 1;
                let error = Error::Range { start: past.start, end: past.end, bytes: past.end - 1 };
                assert_eq!(self.region.prefetch(past.clone()), Err(error.clone()));
                assert_eq!(self.region.lock(past).map(|_| ()), Err(error));
            }
            _ => {
                self.region.check();
                let stats = self.region.stats();
                let size = self.copy.len().next_multiple_of(self.block) as u64;
                assert!(stats.resident <= size && stats.stored <= size, "{stats:?}");
                assert!(stats.resident + stats.device <= stats.held, "{stats:?}");
                assert!(stats.held <= stats.held_max && stats.zeros <= stats.evicted, "{stats:?}");
            }
        }
    }
}

/// After random operations, the contents of each region equal the expected contents, even in
/// children.
#[test]
fn regions_are_as_their_copies() {
    let mut rng = Rng::with_seed(testkit::seed(7));
    for _ in 0..testkit::scaled(12, 400) {
        let made = [Under::draw(&mut rng), Under::draw(&mut rng)];
        let mut regions = made.into_iter().flatten().collect::<Vec<_>>();
        for _ in 0..40 {
            let Some(region) = regions.last_mut() else { break };
            region.event(&mut rng);
            if rng.u8(..40) == 0 {
                let mut rng = rng.fork();
                in_child(|| (0..5).for_each(|_| region.event(&mut rng)));
            }
            let last = regions.len() - 1;
            regions.swap(0, last);
        }
        regions.iter().for_each(|region| region.compare(0..region.copy.len()));
        drop(regions.pop());
        regions.iter().for_each(|region| region.compare(0..region.copy.len()));
    }
}
