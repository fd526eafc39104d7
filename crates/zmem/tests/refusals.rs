//! What can't be stored stays, and faults are answered all the same.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zcomp::{Codec, Error, Memory, Params, Prepared, Stream};
use zmem::{BlockOrder, Options, Region};

const MIB: usize = 1 << 20;

/// lz4, of which every so many-th compression fails.
#[derive(Debug)]
struct Fails;

static CALLS: AtomicU64 = AtomicU64::new(0);
static EVERY: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
struct FailsPrepared(Box<dyn Prepared>);

struct FailsStream<'m>(Box<dyn Stream + 'm>);

impl Codec for Fails {
    fn name(&self) -> &'static str {
        "fails"
    }

    fn levels(&self) -> RangeInclusive<i32> {
        zcomp::codecs()[0].levels()
    }

    fn default_level(&self) -> i32 {
        zcomp::codecs()[0].default_level()
    }

    fn prepare(&self, params: &Params, block: usize) -> Result<Box<dyn Prepared>, Error> {
        Ok(Box::new(FailsPrepared(zcomp::codecs()[0].prepare(params, block)?)))
    }
}

impl Prepared for FailsPrepared {
    fn stream_bytes(&self) -> usize {
        self.0.stream_bytes()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn stream<'m>(&self, memory: Memory<'m>) -> Result<Box<dyn Stream + 'm>, Error> {
        Ok(Box::new(FailsStream(self.0.stream(memory)?)))
    }
}

impl Stream for FailsStream<'_> {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error> {
        if CALLS.fetch_add(1, Relaxed).is_multiple_of(EVERY.load(Relaxed)) {
            return Err(Error::NoMemory { bytes: 1 });
        }
        self.0.compress(src, dst)
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        self.0.decompress(src, dst)
    }
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

#[test]
fn a_compressor_that_fails_loses_nothing() {
    for every in [1, 3, 50] {
        EVERY.store(every, Relaxed);
        for block in [BlockOrder::Fixed(0), BlockOrder::Fixed(2), BlockOrder::Adaptive(2)] {
            let limit = Some(6 * MIB as u64);
            let options = Options { codec: &Fails, block, limit, ..Options::default() };
            let mut region = Region::new(12 * MIB, options).unwrap();
            write(&mut region);
            verify(&region);
            region.reclaim(usize::MAX >> 1);
            region.check();
            verify(&region);
            let stats = region.stats();
            assert!(stats.refused > 0, "{stats:?}");
            assert_eq!(stats.evicted == stats.zeros, every == 1, "{stats:?}");
        }
    }
}

#[test]
fn a_store_at_its_limit_ends_eviction_and_no_fault() {
    let limits = (Some(6 * MIB as u64), Some(200 << 10));
    for block in [BlockOrder::Fixed(0), BlockOrder::Fixed(4), BlockOrder::Adaptive(2)] {
        let options =
            Options { limit: limits.0, store_limit: limits.1, block, ..Options::default() };
        let mut region = Region::new(24 * MIB, options).unwrap();
        for page in region.chunks_mut(4096) {
            page.iter_mut().enumerate().for_each(|(nth, byte)| *byte = ((nth * nth) >> 3) as u8);
        }
        write(&mut region);
        verify(&region);
        region.check();
        let stats = region.stats();
        assert!(stats.refused > 0 && stats.resident > 12 * MIB as u64, "{stats:?}");
        region.dont_need(0..20 * MIB).unwrap();
        assert!(region.reclaim(usize::MAX >> 1) > 0, "with room there is more to evict");
        region.check();
    }
}

/// Random bytes are stored nowhere: they would take more than they do now.
#[test]
fn what_does_not_compress_stays() {
    let mut region = Region::new(4 * MIB, Options::default()).unwrap();
    fastrand::Rng::with_seed(testkit::seed(3)).fill(&mut region[..2 * MIB]);
    let sum = region.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    region.reclaim(usize::MAX >> 1);
    region.check();
    let stats = region.stats();
    assert_eq!((stats.resident, stats.stored), (2 * MIB as u64, 0));
    assert_eq!(region.iter().map(|&byte| u64::from(byte)).sum::<u64>(), sum);
}
