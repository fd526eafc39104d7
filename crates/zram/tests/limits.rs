//! Limits of pool pages and of all memory, and memory that is refused: an error, and nothing is
//! lost.
#![allow(clippy::unwrap_used)]

mod support;

use fastrand::Rng;
use page::{RefuseNth, page_size};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use support::data::{data, limit, range};
use support::load::{is_long, seed};
use support::shadow::Shadow;
use zram::{Compaction, Config, Device, Error, SLOT_BYTES};

fn shadow(config: Config) -> Result<Shadow<Device>, Error> {
    let device = Device::new(config)?;
    let len = device.disksize() as usize;
    Ok(Shadow::of(device, 0, len))
}

fn config(disksize: u64) -> Config {
    Config { streams: Some(2), ..Config::new(disksize).unwrap() }
}

/// One request of any kind.
fn step(shadow: &mut Shadow<Device>, rng: &mut Rng) -> Result<(), Error> {
    let longest = [1, 16, SLOT_BYTES, 3 * SLOT_BYTES, 64 << 10][rng.usize(..5)];
    let (at, len) = range(rng, 4 * SLOT_BYTES, shadow.bytes.len());
    let len = len.min(longest);
    match rng.u32(..12) {
        0..6 => shadow.write(at, &data(rng, len))?,
        6..8 => shadow.compare(at, len),
        8 => shadow.write_zeroes(at, len)?,
        9 => shadow.device.mark_idle()?,
        10 if rng.u32(..20) == 0 => drop(shadow.device.compact()),
        _ => shadow.discard(at, len),
    }
    Ok(())
}

/// Which limit swings.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Swings {
    Pages,
    Total,
    Both,
}

#[test]
fn limits_that_swing_lose_nothing() {
    let steps = if is_long() { 400_000 } else { 12_000 };
    let auto = Compaction::Auto;
    for (nth, swings, compaction) in [
        (4, Swings::Pages, auto),
        (5, Swings::Total, auto),
        (6, Swings::Both, auto),
        (9, Swings::Both, Compaction::Manual),
    ] {
        let mut rng = Rng::with_seed(seed(nth));
        let page = page_size() as u64;
        // What a thread beside asks for is counted until it is refused.
        let asked = if compaction == auto { 16 * page } else { 0 };
        let mut shadow = shadow(Config { compaction, ..config(4 << 20) }).unwrap();
        let empty = shadow.device.mem_total() + (64 << 10);
        let (mut refused, mut by_total) = (0, 0);
        let (mut used_max, mut total_max) = (u64::MAX, u64::MAX);
        for nth in 0..steps {
            if nth % 200 == 0 {
                if swings != Swings::Total {
                    let limit = limit(&mut rng, 400);
                    shadow.device.set_mem_limit(Some(limit));
                    // From now on there can only be less, if it is more.
                    let used = shadow.device.mm_stat().mem_used_total;
                    used_max = limit.next_multiple_of(page).max(used);
                }
                if swings != Swings::Pages {
                    let limit = empty + limit(&mut rng, 300);
                    shadow.device.set_total_limit(Some(limit));
                    total_max = limit.max(shadow.device.mem_total());
                }
            }
            if let Err(error) = step(&mut shadow, &mut rng) {
                let Error::OutOfMemory { total_limit, .. } = error else { panic!("{error}") };
                assert_eq!(error.errno(), 12);
                by_total += u64::from(total_limit.is_some());
                refused += 1;
            }
            let (used, total) = (shadow.device.mm_stat().mem_used_total, shadow.device.mem_total());
            assert!(used <= used_max, "{used} bytes of pages, {used_max} may be");
            assert!(total <= total_max.saturating_add(asked), "{total} bytes, {total_max} may be");
            if nth % 2000 == 0 {
                shadow.device.check();
                shadow.compare(0, shadow.bytes.len());
            }
        }
        println!("{swings:?}: {refused} refused, {by_total} by total_limit");
        assert!(refused > 100, "{swings:?}: refused {refused} times only");
        assert_eq!(by_total > 50, swings != Swings::Pages, "{by_total}");
        assert_eq!(shadow.device.io_stat().failed_writes, refused);
        shadow.discard(0, shadow.bytes.len());
        shadow.device.set_mem_limit(None);
        shadow.device.set_total_limit(None);
        shadow.write(0, &[7; 3 * SLOT_BYTES]).unwrap();
        shadow.device.check();
    }
}

/// Bytes that a block is stored in beside its word.
fn stored_len(stream: &mut dyn zcomp::Stream, block: &[u8]) -> usize {
    if block[8..] == block[..SLOT_BYTES - 8] {
        return 0;
    }
    stream.compress(block, &mut [0; 2 * SLOT_BYTES]).unwrap().unwrap().min(SLOT_BYTES)
}

/// I6: at a limit of one byte, what needs no more room than was there is stored all the same.
#[test]
fn an_overwrite_that_needs_no_more_room_never_fails() {
    let codec = zcomp::codecs()[0].prepare(&zcomp::Params::default(), SLOT_BYTES).unwrap();
    let mut stream = codec.stream_owned().unwrap();
    let mut shadow = shadow(config(2 << 20)).unwrap();
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
        for nth in 1.. {
            let supply = Arc::new(RefuseNth::new(nth, from_then_on));
            let config = Config {
                supply: Some(supply.clone()),
                track_access,
                // By itself it would make what is asked for depend on time.
                compaction: Compaction::Manual,
                ..config(1 << 20)
            };
            match shadow(config) {
                Err(error) => assert_eq!(error.errno(), 12, "{error}"),
                Ok(mut shadow) => {
                    let mut rng = Rng::with_seed(seed);
                    for _ in 0..60 {
                        if let Err(error) = step(&mut shadow, &mut rng) {
                            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
                        }
                    }
                    shadow.device.compact();
                    shadow.device.check();
                    shadow.compare(0, shadow.bytes.len());
                    shadow.discard(0, shadow.bytes.len());
                    shadow.device.check();
                    assert_eq!(shadow.device.mm_stat().orig_data_size, 0);
                }
            }
            if supply.requests() < nth {
                assert!(nth > 30, "{nth} requests only");
                break;
            }
        }
    }
}

/// Slots of zeros that are stored take no pages of the pool, and words all the same.
#[test]
fn tables_are_limited_with_pages() {
    let mem_limit = 4 << 20;
    let with = |limit_tables| {
        let config = Config { mem_limit: Some(mem_limit), limit_tables, ..config(1 << 40) };
        Device::new(config).unwrap()
    };
    let zeros = vec![0; 1 << 20];
    // A device that stores zeros until it can't, at most 8 GiB of them.
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
    // The limit follows; and one that is asked for goes before it.
    device.set_mem_limit(Some(2 * mem_limit));
    device.write(1 << 39, &zeros).unwrap();
    device.set_total_limit(Some(1));
    assert!(device.write(1 << 38, &zeros).is_err());
    device.set_total_limit(None);
    device.write(1 << 38, &zeros).unwrap();
    device.set_mem_limit(None);
    assert_eq!((device.total_limit(), fill(&device)), (None, None));
}

/// Whichever of two who set limits at once is the last: all memory is limited with the pool's pages
/// as they are then.
#[test]
fn limits_that_are_set_at_once_agree() {
    const ROUNDS: u64 = 20_000;
    let config = Config { mem_limit: Some(4 << 20), limit_tables: true, ..config(1 << 30) };
    let device = Device::new(config).unwrap();
    let empty = device.total_limit().unwrap() - (5 << 20);
    let arrived = AtomicU64::new(0);
    // Who sleeps comes too late to meet the other.
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
                // Told at the end, since the other waits.
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

/// As much data as the pool's limit is for are stored, of whatever size, down to 64 bytes for 4
/// KiB.
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
