//! Tests the limits of pool pages and of all memory, and refusals of memory. A request that gets no
//! memory fails with an error, and no data are lost.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use testkit::device::{DeviceModel, Limits, Setup};
use testkit::shadow::Shadow;
use testkit::supply::refuse_every;
use testkit::{Run, scaled, seed};
use zram::{Config, Device, Error, SLOT_BYTES};

fn config(disksize: u64) -> Config {
    Config { streams: Some(2), ..Config::new(disksize).unwrap() }
}

#[test]
fn limits_that_swing_lose_nothing() {
    for (nth, limits, is_compacted) in [
        (4, Limits::Pages, true),
        (5, Limits::Total, true),
        (6, Limits::Both, true),
        (9, Limits::Both, false),
    ] {
        let setup = Setup { limits, is_compacted, ..Setup::new(4 << 20) };
        let run = Run { seed: seed(nth), steps: scaled(12_000, 400_000), first: 0, every: 2000 };
        let report = testkit::run::<DeviceModel>(setup, run).unwrap();
        println!("{limits:?}: {report:?}");
        let (refused, by_total) = (report.refused, report.by_total);
        assert!(refused > 100, "{limits:?}: refused {refused} times only");
        assert_eq!(by_total > 50, limits != Limits::Pages, "{by_total}");
        assert_eq!(report.failed_writes, refused);
    }
}

/// Returns the number of bytes that the object of a block takes, without the object's entry.
fn stored_len(stream: &mut dyn zcomp::Stream, block: &[u8]) -> usize {
    if block[8..] == block[..SLOT_BYTES - 8] {
        return 0;
    }
    stream.compress(block, &mut [0; 2 * SLOT_BYTES]).unwrap().unwrap().min(SLOT_BYTES)
}

/// At a limit of one byte, an overwrite succeeds if the new data need no more memory than the old
/// data (I6).
#[test]
fn an_overwrite_that_needs_no_more_room_never_fails() {
    let codec = zcomp::codecs()[0].prepare(&zcomp::Params::default(), SLOT_BYTES).unwrap();
    let mut stream = codec.stream().unwrap();
    let mut shadow = Shadow::new(config(2 << 20)).unwrap();
    let mut rng = Rng::with_seed(seed(7));
    let noise = |rng: &mut Rng, longest: usize| {
        let mut block = [0; SLOT_BYTES];
        let len = rng.usize(1..=longest);
        rng.fill(&mut block[..len]);
        block
    };
    for at in (0..shadow.bytes.len()).step_by(SLOT_BYTES) {
        shadow.write(at, &noise(&mut rng, SLOT_BYTES)).unwrap();
    }
    let (mut stored, mut refused) = (0, 0);
    for limits in [(Some(1), None), (None, Some(1)), (Some(1), Some(1))] {
        shadow.device.set_mem_limit(limits.0);
        shadow.device.set_total_limit(limits.1);
        for _ in 0..2000 {
            let at = rng.usize(..shadow.bytes.len() / SLOT_BYTES) * SLOT_BYTES;
            let part = if rng.bool() {
                0..SLOT_BYTES
            } else {
                rng.usize(..2000)..rng.usize(2000..SLOT_BYTES)
            };
            let new = noise(&mut rng, SLOT_BYTES)[part.clone()].to_vec();
            let mut block = shadow.bytes[at..at + SLOT_BYTES].to_vec();
            let before = stored_len(&mut *stream, &block);
            block[part.clone()].copy_from_slice(&new);
            let fits = stored_len(&mut *stream, &block) <= before;
            match shadow.write(at + part.start, &new) {
                Ok(()) => stored += 1,
                Err(error) if fits => panic!("{error}"),
                Err(_) => refused += 1,
            }
        }
        shadow.device.check();
        shadow.compare(0, shadow.bytes.len());
    }
    assert!(stored > 500 && refused > 500, "{stored} stored, {refused} refused");
}

#[test]
fn every_refusal_is_an_error_and_loses_nothing() {
    let seed = seed(8);
    for (from_then_on, track_access) in [(false, false), (true, false), (false, true)] {
        refuse_every(from_then_on, |refuse| {
            let setup = Setup { track_access, refuse: Some(refuse), ..Setup::new(1 << 20) };
            let run = Run { seed, steps: 80, first: 0, every: 20 };
            Some(testkit::run::<DeviceModel>(setup, run)?.requests)
        });
    }
}

#[test]
fn tables_are_limited_with_pages() {
    let mem_limit = 4 << 20;
    let with = |limit_tables| {
        let config = Config { mem_limit: Some(mem_limit), limit_tables, ..config(1 << 40) };
        Device::new(config).unwrap()
    };
    let zeros = vec![0; 1 << 20];
    // Writes zeros until a write fails, or until 8 GiB are stored.
    let fill = |device: &Device| {
        (0..8 << 10).map(|nth| nth << 20).find_map(|at| device.write(at, &zeros).err())
    };
    let unlimited = with(false);
    assert_eq!(fill(&unlimited), None);
    assert!(unlimited.mem_total() > 3 * mem_limit, "{}", unlimited.mem_total());
    drop(unlimited);
    let device = with(true);
    let most = device.mem_total() + (64 << 10) + mem_limit + mem_limit / 4;
    let error = fill(&device).unwrap();
    assert!(matches!(error, Error::OutOfMemory { total_limit: Some(_), .. }), "{error}");
    assert!(device.mem_total() <= most, "{} of {most}", device.mem_total());
    assert!(device.mem_total() >= most - (256 << 10), "{} of {most}", device.mem_total());
    // The limit of all memory follows `mem_limit`. An explicit limit takes precedence.
    device.set_mem_limit(Some(2 * mem_limit));
    device.write(1 << 39, &zeros).unwrap();
    device.set_total_limit(Some(1));
    assert!(device.write(1 << 38, &zeros).is_err());
    device.set_total_limit(None);
    device.write(1 << 38, &zeros).unwrap();
    device.set_mem_limit(None);
    assert_eq!((device.total_limit(), fill(&device)), (None, None));
}

/// If a request fails because of the limit of all memory, the error contains that limit, for every
/// kind of request.
#[test]
fn the_limit_that_refuses_is_named_whatever_was_asked_for() {
    let device = |total_limit| Device::new(Config { total_limit, ..config(1 << 30) });
    let Error::TotalLimit { needed, .. } = device(Some(1)).unwrap_err() else { panic!() };
    let mut refused = 0;
    for more in (0..256 << 10).step_by(2 << 10) {
        let device = device(Some(needed + more)).unwrap();
        let stored = (0..100).map(|nth| device.write(nth << 20, &[nth as u8, 1, 2]));
        let Some(error) = stored.filter_map(Result::err).next() else { continue };
        refused += 1;
        let is_named = matches!(error, Error::OutOfMemory { total_limit: Some(_), .. });
        assert!(is_named, "with {more} bytes more than an empty device takes: {error}");
    }
    assert!(refused > 10, "{refused} refusals");
}

/// Two threads set limits at the same time. The limit of all memory always corresponds to the
/// current limit of the pool's pages.
#[test]
fn limits_that_are_set_at_once_agree() {
    const ROUNDS: u64 = 20_000;
    let config = Config { mem_limit: Some(4 << 20), limit_tables: true, ..config(1 << 30) };
    let device = Device::new(config).unwrap();
    let empty = device.total_limit().unwrap() - (5 << 20);
    let arrived = AtomicU64::new(0);
    // The threads yield instead of sleeping, because a sleeping thread would wake too late.
    let meet = |nth: u64| {
        arrived.fetch_add(1, SeqCst);
        while arrived.load(SeqCst) < 2 * nth {
            std::thread::yield_now();
        }
    };
    let set = |own: u64| {
        let mut wrong = Vec::new();
        for round in 0..ROUNDS {
            meet(2 * round + 1);
            device.set_mem_limit(Some((own + round) << 20));
            meet(2 * round + 2);
            if own == 1 {
                let pages = device.mm_stat().mem_limit;
                let expected = empty + pages + pages / 4;
                // A difference is reported after the loop, because the other thread waits at the
                // barriers.
                if device.total_limit() != Some(expected) {
                    wrong.push(round);
                }
            }
        }
        wrong
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| set(ROUNDS));
        let wrong = set(1);
        other.join().unwrap();
        assert!(wrong.is_empty(), "an older limit is in force after rounds {wrong:?}");
    });
    device.set_total_limit(Some(1 << 40));
    assert_eq!(device.total_limit(), Some(1 << 40));
}

/// The limit on total memory is so high that the pool reaches its own limit first, even if each
/// slot compresses to 64 bytes.
#[test]
fn what_limits_tables_leaves_the_pool_its_own() {
    let mem_limit = 4 << 20;
    for noise in [SLOT_BYTES, 1500, 300, 40] {
        let config = Config { mem_limit: Some(mem_limit), limit_tables: true, ..config(1 << 40) };
        let device = Device::new(config).unwrap();
        let mut rng = Rng::with_seed(seed(noise as u64));
        let error = (0..).find_map(|slot| {
            let mut block = [7; SLOT_BYTES];
            rng.fill(&mut block[..noise]);
            device.write(slot * SLOT_BYTES as u64, &block).err()
        });
        let Some(Error::OutOfMemory { total_limit, .. }) = error else { panic!("{error:?}") };
        let stat = device.mm_stat();
        assert_eq!(total_limit, None, "{noise} bytes of noise: {stat:?}");
        assert!(stat.mem_used_total > mem_limit - (64 << 10), "{stat:?}");
    }
}
