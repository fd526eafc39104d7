//! Blocks that the device can't store stay resident, and faults never fail.

use crate::{MIB, for_each_backend, for_each_option};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use testkit::watched_codec::{Call, WatchedCodec};
use zcomp::Error;
use zmem::{BlockOrder, Options, Region};

/// The codec lz4, in which one of `EVERY` compressions fails.
static FAILS: WatchedCodec = WatchedCodec { of: "lz4", before: fail_some };
static CALLS: AtomicU64 = AtomicU64::new(0);
static EVERY: AtomicU64 = AtomicU64::new(1);

fn fail_some(call: Call) -> Result<(), Error> {
    let is_next = || CALLS.fetch_add(1, Relaxed).is_multiple_of(EVERY.load(Relaxed));
    if call == Call::Compress && is_next() {
        return Err(Error::NoMemory { bytes: 1 });
    }
    Ok(())
}

fn write(region: &mut Region) {
    for (nth, page) in region.chunks_mut(4096).enumerate() {
        page[..4].copy_from_slice(&(nth as u32).to_le_bytes());
        page[1000..1100].fill(nth as u8);
    }
}

fn verify(region: &Region) {
    for (nth, page) in region.chunks(4096).enumerate() {
        assert_eq!(page[..4], (nth as u32).to_le_bytes());
        assert!(page[1000..1100].iter().all(|&byte| byte == nth as u8), "page {nth}");
    }
}

const BLOCKS: [BlockOrder; 3] =
    [BlockOrder::Fixed(0), BlockOrder::Fixed(4), BlockOrder::Adaptive(2)];

#[test]
fn a_compressor_that_fails_loses_nothing() {
    for every in [1, 3, 50] {
        EVERY.store(every, Relaxed);
        for_each_option(&BLOCKS, |options| {
            let limit = Some(6 * MIB as u64);
            let options = Options { codec: &FAILS, limit, ..options };
            let mut region = Region::new(12 * MIB, options).unwrap();
            write(&mut region);
            verify(&region);
            region.reclaim(usize::MAX >> 1);
            region.check();
            verify(&region);
            let stats = region.stats();
            assert!(stats.refused > 0, "{stats:?}");
            assert_eq!(stats.evicted == stats.zeros, every == 1, "{stats:?}");
        });
    }
}

#[test]
fn a_store_at_its_limit_ends_eviction_and_no_fault() {
    let limits = (Some(6 * MIB as u64), Some(200 << 10));
    for_each_option(&BLOCKS, |options| {
        let options = Options { limit: limits.0, store_limit: limits.1, ..options };
        let mut region = Region::new(24 * MIB, options).unwrap();
        for page in region.chunks_mut(4096) {
            page.iter_mut().enumerate().for_each(|(nth, byte)| *byte = ((nth * nth) >> 3) as u8);
        }
        write(&mut region);
        verify(&region);
        region.check();
        let stats = region.stats();
        assert!(stats.refused > 0 && stats.resident > 12 * MIB as u64, "{stats:?}");
        // The whole range is dropped, because any of its blocks may be stored.
        region.dont_need(0..24 * MIB).unwrap();
        region[..4 * MIB].chunks_mut(4096).for_each(|page| page[..100].fill(7));
        region.reclaim(usize::MAX >> 1);
        let after = region.stats();
        assert!(after.evicted > stats.evicted, "with room there is more to evict: {after:?}");
        assert!(region[..4 * MIB].chunks(4096).all(|page| page[..100] == [7; 100]));
        region.check();
    });
}

/// Blocks of random bytes stay resident, because they would use more memory on the device.
#[test]
fn what_does_not_compress_stays() {
    for_each_backend(|backend| {
        let options = Options { backend, ..Options::default() };
        let mut region = Region::new(4 * MIB, options).unwrap();
        fastrand::Rng::with_seed(testkit::seed(3)).fill(&mut region[..2 * MIB]);
        let sum = region.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        region.reclaim(usize::MAX >> 1);
        region.check();
        let stats = region.stats();
        assert_eq!((stats.resident, stats.stored), (2 * MIB as u64, 0));
        assert_eq!(region.iter().map(|&byte| u64::from(byte)).sum::<u64>(), sum);
    });
}
