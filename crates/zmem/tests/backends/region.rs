//! Regions that one thread uses. The thread reads the data that it wrote, whichever blocks were
//! evicted after the writes.

use crate::{MIB, ORDERS, PAGE, for_each_backend, for_each_option};
use fastrand::Rng;
use testkit::{mappings_max, scaled};
use zmem::{Advice, BackendKind, BlockOrder, Error, Options, Region};

/// Fills `bytes` with data that compress to about a fifth. The data of different blocks differ.
fn fill(bytes: &mut [u8], tag: u64) {
    for (nth, chunk) in bytes.chunks_mut(32).enumerate() {
        let word = (tag << 32 ^ nth as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let word = word.to_le_bytes();
        let len = chunk.len();
        chunk.copy_from_slice(&[word[..4].to_vec(), vec![tag as u8; 28]].concat()[..len]);
    }
}

fn expected(len: usize, tag: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, tag);
    bytes
}

#[test]
fn what_is_reclaimed_comes_back() {
    for_each_option(&ORDERS, |options| {
        let mut region = Region::new(8 * MIB, options.clone()).unwrap();
        let expected = expected(8 * MIB, 7);
        region.copy_from_slice(&expected);
        let before = region.stats();
        assert_eq!(before.resident, 8 * MIB as u64);
        assert_eq!(region.reclaim(usize::MAX >> 1), 8 * MIB);
        region.check();
        let after = region.stats();
        assert_eq!((after.resident, after.stored), (0, 8 * MIB as u64), "{options:?}");
        assert!(after.held + (4 * MIB as u64) < before.held, "{options:?}: {after:?}");
        assert!(*region == *expected, "{options:?}");
        region.check();
        assert_eq!(region.stats().filled as usize, 8 * MIB / after.block);
    });
}

#[test]
fn a_limit_is_kept() {
    let parts = scaled(14, 24);
    for_each_option(&ORDERS, |options| {
        let limit = (parts / 2 * MIB) as u64;
        let options = Options { limit: Some(limit), ..options };
        let mut region = Region::new(parts * MIB, options.clone()).unwrap();
        for (seed, part) in region.chunks_mut(MIB).enumerate() {
            fill(part, seed as u64);
        }
        for seed in (0..parts).chain([3, 1, 11, 7]) {
            let stats = region.stats();
            assert!(stats.held <= limit + limit / 20, "{options:?}: {stats:?}");
            assert!(region[seed * MIB..(seed + 1) * MIB] == expected(MIB, seed as u64), "{seed}");
        }
        region.check();
    });
}

#[test]
fn zeros_take_nothing() {
    for_each_backend(|backend| {
        let options = Options { backend, ..Options::default() };
        let mut region = Region::new(16 * MIB, options).unwrap();
        assert!(region.iter().step_by(PAGE).all(|&byte| byte == 0));
        region[5] = 1;
        region.reclaim(usize::MAX >> 1);
        let stats = region.stats();
        assert_eq!((stats.resident, stats.stored), (0, 4096));
        assert_eq!(stats.zeros, 16 * 256 - 1);
        assert_eq!(region[..10], [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        region.dont_need(0..16 * MIB).unwrap();
        region.check();
        assert_eq!((region[5], region.stats().resident), (0, 4096));
    });
}

#[test]
fn dont_need_makes_zeros_of_whatever_is_there() {
    for_each_option(&ORDERS, |options| {
        let mut region = Region::new(4 * MIB, options).unwrap();
        region.fill(9);
        region.advise(0..MIB, Advice::Cold).unwrap();
        region.advise(MIB - 4096..MIB + 5000, Advice::Hot).unwrap();
        region.dont_need(100..3 * MIB + 100).unwrap();
        region.check();
        assert!(region[..100].iter().all(|&byte| byte == 9));
        assert!(region[100..3 * MIB + 100].iter().all(|&byte| byte == 0));
        assert!(region[3 * MIB + 100..].iter().all(|&byte| byte == 9));
        region.reclaim(usize::MAX >> 1);
        region.dont_need(0..4 * MIB).unwrap();
        assert!(region.iter().all(|&byte| byte == 0));
        region.reclaim(usize::MAX >> 1);
        region.check();
        assert_eq!(region.stats().stored, 0);
    });
}

#[test]
fn options_that_can_not_be_are_refused() {
    let new = |bytes, options| Region::new(bytes, options).map(drop).unwrap_err();
    assert!(matches!(new(0, Options::default()), Error::Size { bytes: 0, .. }));
    for (address, bytes) in
        [(PAGE, usize::MAX), (PAGE, usize::MAX - PAGE + 1), (usize::MAX - 10, 9)]
    {
        let start = std::ptr::NonNull::new(std::ptr::without_provenance_mut(address)).unwrap();
        // SAFETY: the call fails, so the memory is not managed.
        let refused = unsafe { Region::manage(start, bytes, Options::default()).map(drop) };
        assert_eq!(refused, Err(Error::Size { bytes, block: PAGE }));
    }
    let store = Options { store_limit: Some(1), ..Options::default() };
    assert!(matches!(new(MIB, store), Error::StoreLimit { limit: 1, .. }));
    let large = Options { block: BlockOrder::Fixed(5), ..Options::default() };
    assert!(matches!(new(MIB, large), Error::Order { order: 5, max: 4, .. }));
    let low = Options { limit: Some(100_000), ..Options::default() };
    assert!(matches!(new(MIB, low), Error::Limit { limit: 100_000, .. }));
    let region = Region::new(MIB, Options::default()).unwrap();
    let range = Err(Error::Range { start: 0, end: MIB + 1, bytes: MIB });
    assert_eq!(region.prefetch(0..MIB + 1), range);
}

#[test]
fn what_is_a_regions_already_is_not_managed_again() {
    let region = Region::new(4 * MIB, Options::default()).unwrap();
    let start = std::ptr::NonNull::new(region.as_ptr()).unwrap();
    // SAFETY: the call fails, so the memory is not managed.
    let refused = unsafe { Region::manage(start, MIB, Options::default()).map(drop) };
    let first = region.as_ptr().addr();
    assert_eq!(refused, Err(Error::Overlap { start: first, end: first + 4 * MIB }));
}

#[test]
fn a_region_that_is_refused_keeps_no_other_out() {
    let backend = BackendKind::SignalMappings;
    let many = Region::new(mappings_max() * 2 * MIB, Options { backend, ..Options::default() });
    assert!(matches!(many.map(drop), Err(Error::System { .. })), "each block may be a mapping");
    assert!(Region::new(MIB, Options::default()).is_ok());
}

/// Evictions and fills in random order leave partly filled pages in the device. A call that evicts
/// packs the device.
#[test]
fn what_goes_in_any_order_is_packed() {
    for_each_backend(|backend| {
        let mut region = Region::new(24 * MIB, Options { backend, ..Options::default() }).unwrap();
        let mut rng = Rng::with_seed(testkit::seed(6));
        for page in region.chunks_mut(PAGE) {
            let len = rng.usize(100..3000);
            rng.fill(&mut page[..len]);
        }
        let sum = |region: &Region| region.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let expected = sum(&region);
        for _ in 0..4 {
            let touched = |_| region[rng.usize(..region.len())];
            std::hint::black_box((0..3000).map(touched).fold(0, u8::wrapping_add));
            region.advise(0..region.len(), Advice::Cold).unwrap();
        }
        let stats = region.stats();
        assert_eq!(stats.resident, 0);
        assert!(stats.pool * 100 <= stats.compressed * 110, "{stats:?}");
        assert_eq!(sum(&region), expected);
        region.check();
    });
}
