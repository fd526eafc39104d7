//! Regions of one thread: what is written is read, whatever is evicted meanwhile.
#![allow(unsafe_code, clippy::unwrap_used)]

use zmem::{Advice, BackendKind, BlockOrder, Error, Options, Region};

const MIB: usize = 1 << 20;

/// Bytes that compress to about a fifth, and tell where they are.
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

fn all_options() -> Vec<Options> {
    let orders = [0, 1, 2, 3, 4].map(BlockOrder::Fixed).into_iter();
    let orders = orders.chain([BlockOrder::Adaptive(2), BlockOrder::Adaptive(4)]);
    let backends = [BackendKind::Signal, BackendKind::SignalMappings];
    let of = |block| backends.map(|backend| Options { block, backend, ..Options::default() });
    orders.flat_map(of).collect()
}

#[test]
fn what_is_reclaimed_comes_back() {
    for options in all_options() {
        let mut region = Region::new(8 * MIB, options.clone()).unwrap();
        let expected = expected(8 * MIB, 7);
        region.copy_from_slice(&expected);
        let before = region.stats();
        assert_eq!(before.resident, 8 * MIB as u64);
        assert_eq!(region.reclaim(usize::MAX >> 1), 8 * MIB);
        region.check();
        let after = region.stats();
        assert_eq!((after.resident, after.stored), (0, 8 * MIB as u64), "{options:?}");
        assert!(after.held < before.held / 2, "{options:?}: {after:?}");
        assert!(*region == *expected, "{options:?}");
        region.check();
        assert_eq!(region.stats().filled as usize, 8 * MIB / after.block);
    }
}

#[test]
fn a_limit_is_kept() {
    for options in all_options() {
        let limit = 12 * MIB as u64;
        let options = Options { limit: Some(limit), ..options };
        let mut region = Region::new(24 * MIB, options.clone()).unwrap();
        for (seed, part) in region.chunks_mut(MIB).enumerate() {
            fill(part, seed as u64);
        }
        for seed in (0..24).chain([3, 1, 20, 7]) {
            let stats = region.stats();
            assert!(stats.held <= limit, "{options:?}: {stats:?}");
            assert!(region[seed * MIB..(seed + 1) * MIB] == expected(MIB, seed as u64), "{seed}");
        }
        region.check();
    }
}

#[test]
fn zeros_take_nothing() {
    let mut region = Region::new(64 * MIB, Options::default()).unwrap();
    assert!(region.iter().step_by(4096).all(|&byte| byte == 0));
    region[5] = 1;
    region.reclaim(usize::MAX >> 1);
    let stats = region.stats();
    assert_eq!((stats.resident, stats.stored), (0, 4096));
    assert_eq!(stats.zeros, 64 * 256 - 1);
    assert_eq!(region[..10], [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    region.dont_need(0..64 * MIB).unwrap();
    region.check();
    assert_eq!((region[5], region.stats().resident), (0, 4096));
}

#[test]
fn dont_need_makes_zeros_of_whatever_is_there() {
    for options in all_options() {
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
    }
}

#[test]
fn what_is_locked_stays_and_can_be_given_to_the_kernel() {
    use std::io::Read;
    let mut region = Region::new(4 * MIB, Options::default()).unwrap();
    region.fill(1);
    region.reclaim(usize::MAX >> 1);
    let mut zeros = std::fs::File::open("/dev/zero").unwrap();
    let refused = zeros.read(&mut region[5000..50_000]).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EFAULT));
    let start = region.as_ptr();
    let locked = region.lock(5000..50_000).unwrap();
    region.reclaim(usize::MAX >> 1);
    assert_eq!(region.stats().resident, 12 * 4096);
    // SAFETY: within the region, of which there is no other reference.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start.add(5000), 45_000) };
    zeros.read_exact(bytes).unwrap();
    // SAFETY: as above.
    let locked_range = unsafe { region.dont_need_shared(0..MIB) };
    assert_eq!(locked_range, Err(Error::Locked { at: 4096 }));
    drop(locked);
    region.reclaim(usize::MAX >> 1);
    assert_eq!(region.stats().resident, 0);
    assert!(region[5000..50_000].iter().all(|&byte| byte == 0));
    region.check();
}

#[test]
fn memory_that_is_there_can_be_managed_and_given_back() {
    let mut memory = vec![0u8; 8 * MIB];
    fill(&mut memory, 3);
    let expected = memory.clone();
    let start = std::ptr::NonNull::from(&mut memory[..]).cast();
    let options = Options { limit: Some(5 * MIB as u64), ..Options::default() };
    // SAFETY: the C library maps so much by itself, and nobody else has it until `region` is gone.
    let region = unsafe { Region::manage(start, 8 * MIB, options).unwrap() };
    region.reclaim(4 * MIB);
    assert!(region.stats().stored >= 4 * MIB as u64);
    assert!(memory == expected);
    region.reclaim(usize::MAX >> 1);
    drop(region);
    assert!(memory == expected);
}

#[test]
fn options_that_can_not_be_are_refused() {
    let new = |bytes, options| Region::new(bytes, options).map(drop).unwrap_err();
    assert!(matches!(new(0, Options::default()), Error::Size { bytes: 0, .. }));
    let large = Options { block: BlockOrder::Fixed(5), ..Options::default() };
    assert!(matches!(new(MIB, large), Error::Order { order: 5, max: 4, .. }));
    let low = Options { limit: Some(100_000), ..Options::default() };
    assert!(matches!(new(MIB, low), Error::Limit { limit: 100_000, .. }));
    let region = Region::new(MIB, Options::default()).unwrap();
    let range = Err(Error::Range { start: 0, end: MIB + 1, bytes: MIB });
    assert_eq!(region.prefetch(0..MIB + 1), range);
}
