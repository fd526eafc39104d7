//! Tests of the table of entries through pools. The tests use threads, pins and stale handles while
//! leaves are converted.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use testkit::seed;
use testkit::wait::load;
use zsmalloc::{Columns, Config, Content, EntryPool, EntryReadGuard, Error, Handle, Pool};

/// Returns bytes that differ per slot and version, and identify both.
fn contents(slot: u32, version: u32) -> Vec<u8> {
    let len = 16 + (slot as usize * 31 + version as usize * 7) % 600;
    let seed = (slot as u64) << 32 | version as u64;
    let rest = (0..len as u64 - 8).map(|nth| (seed.wrapping_mul(nth | 1) >> 24) as u8);
    seed.to_ne_bytes().into_iter().chain(rest).collect()
}

fn read(core: &EntryPool, slot: u32) -> Option<u32> {
    version_of(core.read(slot), slot)
}

/// Asserts that a slot holds bytes of its own, and returns their version. Returns `None` if the
/// slot has no object.
fn version_of(pin: EntryReadGuard<'_>, slot: u32) -> Option<u32> {
    let Content::Object { bytes, .. } = pin.content() else { return None };
    let seed = u64::from_ne_bytes(*bytes.first_chunk().unwrap());
    assert_eq!(seed >> 32, slot as u64, "slot {slot} holds another's bytes");
    assert!(bytes == contents(slot, seed as u32), "slot {slot} is torn");
    Some(seed as u32)
}

/// Writes and discards the thread's own slots, and records their expected contents.
fn write(
    core: &EntryPool,
    mut rng: Rng,
    (writer, writers): (u32, u32),
    slots: u32,
    (stop, done): (&AtomicBool, &AtomicU64),
) {
    let mut mine = vec![None; (slots / writers) as usize];
    let mut version = 0;
    while !stop.load(Relaxed) {
        // In one phase all writers fill leaves, and in the next phase all writers empty leaves.
        let fill = (done.load(Relaxed) / (32 * slots as u64)).is_multiple_of(2);
        let stored = if fill { rng.u32(1..100) } else { 1 };
        let operations = rng.u32(1..3000);
        done.fetch_add(operations.into(), Relaxed);
        for _ in 0..operations {
            let nth = rng.usize(..mine.len());
            let slot = nth as u32 * writers + writer;
            assert_eq!(read(core, slot), mine[nth], "slot {slot}");
            if rng.u32(..100) < stored {
                version += 1;
                let staged = core.stage(slot, &contents(slot, version)).unwrap();
                core.lock(slot).unwrap().replace(staged, 0);
                mine[nth] = Some(version);
            } else if let Some(word) = core.lock_existing(slot) {
                word.set_payload(0);
                mine[nth] = None;
            }
        }
    }
    for (nth, version) in mine.into_iter().enumerate() {
        assert_eq!(read(core, nth as u32 * writers + writer), version, "at the end");
    }
}

#[test]
fn slots_keep_their_contents_while_leaves_are_converted() {
    const WRITERS: u32 = 3;
    const SLOTS: u32 = 512 * 9;
    let core = EntryPool::new(Config::default(), SLOTS as u64, Columns::default()).unwrap();
    let (stop, done, read_by_others) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut seeds = Rng::with_seed(seed(1));
    std::thread::scope(|scope| {
        let (core, stop, done, read_by_others) = (&core, &stop, &done, &read_by_others);
        for writer in 0..WRITERS {
            let rng = seeds.fork();
            scope.spawn(move || write(core, rng, (writer, WRITERS), SLOTS, (stop, done)));
        }
        let mut rng = seeds.fork();
        scope.spawn(move || {
            while !stop.load(Relaxed) {
                let first = rng.u32(..SLOTS);
                for (slot, pin) in (first..SLOTS).zip(core.read_ahead(first..SLOTS)).take(20) {
                    version_of(pin, slot);
                    read_by_others.fetch_add(1, Relaxed);
                }
            }
        });
        let freed = Cell::new(0);
        let has_come = || freed.get() > 0 && read_by_others.load(Relaxed) > 0;
        load(Duration::from_secs(5), has_come, || {
            freed.update(|freed| freed + core.rebalance(&mut || true));
            core.shrink(1 << 16);
        });
        stop.store(true, Relaxed);
        assert!(freed.get() > 0);
    });
    assert!(read_by_others.into_inner() > 0);
    core.check();
}

/// For any number of entries, empty or not, the entries are pinned in order.
#[test]
fn words_in_a_row_are_pinned_in_order() {
    const SLOTS: u32 = 1200;
    let core = EntryPool::new(Config::default(), SLOTS as u64, Columns::default()).unwrap();
    let holds = |slot: u32| (slot < 600 && !slot.is_multiple_of(3)).then_some(slot);
    for slot in (0..SLOTS).filter(|&slot| holds(slot).is_some()) {
        core.lock(slot).unwrap().store(&contents(slot, slot), 0).unwrap();
    }
    for (first, len) in [(0, 0), (0, 1), (1, 2), (597, 3), (590, 30), (0, SLOTS)] {
        let words = first..first + len;
        let found = words.clone().zip(core.read_ahead(words.clone()));
        let found: Vec<_> = found.map(|(slot, pin)| version_of(pin, slot)).collect();
        assert_eq!(found, words.map(holds).collect::<Vec<_>>());
    }
    // Entries that were pinned ahead are unpinned if the iterator is dropped.
    assert_eq!(core.read_ahead(1..SLOTS).next().map(|pin| version_of(pin, 1)), Some(Some(1)));
    core.check();
    drop(core.lock(2).unwrap());
}

#[test]
fn a_stale_handle_is_never_taken_for_a_live_one() {
    let pool = Pool::new(Config::default()).unwrap();
    let mut rng = Rng::with_seed(seed(3));
    let mut live: Vec<u64> = Vec::new();
    let mut stale = HashSet::new();
    let mut refused = 0;
    while refused < 1_000_000 {
        for nth in 0..rng.u64(1..6000) {
            let raw = pool.store(&nth.to_ne_bytes()).unwrap().into_raw();
            assert!(!stale.contains(&raw), "{raw:#x} is given out again");
            live.push(raw);
        }
        let kept = [0, live.len() / 50, live.len() / 2][rng.usize(..3)];
        while live.len() > kept {
            let raw = live.swap_remove(rng.usize(..live.len()));
            pool.free(Handle::from_raw(raw).unwrap()).unwrap();
            stale.insert(raw);
        }
        pool.rebalance();
        for &raw in &stale {
            let handle = Handle::from_raw(raw).unwrap();
            assert_eq!(pool.read(&handle).unwrap_err(), Error::Handle { raw });
            if refused % 64 == 0 {
                assert_eq!(pool.write(&handle, b"x"), Err(Error::Handle { raw }));
                assert_eq!(pool.free(handle), Err(Error::Handle { raw }));
            }
            refused += 1;
        }
    }
    pool.check();
    live.into_iter().for_each(|raw| pool.free(Handle::from_raw(raw).unwrap()).unwrap());
    assert!(pool.is_empty());
}

/// A rebalance removes a free handle slot from the table, unless the removal would raise the
/// generations of the leaf's other slots too far.
#[test]
fn much_used_cells_age_alone() {
    let pool = Pool::new(Config::default()).unwrap();
    let mut seen = HashSet::new();
    for round in 0..40 {
        for _ in 0..1000 * (round % 3) + 1 {
            let raw = pool.store(b"again").unwrap().into_raw();
            assert!(seen.insert(raw), "{raw:#x} is given out again");
            pool.free(Handle::from_raw(raw).unwrap()).unwrap();
        }
        pool.rebalance();
        pool.check();
    }
}

const COUNT: usize = 262_144;

/// Sets a different payload in each slot. Returns the number of bytes by which the pool has grown.
fn fill(core: &EntryPool, slots: &[u32]) -> usize {
    let empty = core.bytes();
    slots.iter().for_each(|&slot| {
        core.lock(slot).unwrap().set_payload(1 + slot as u64);
    });
    core.bytes() - empty
}

/// Fills slots, rebalances the pool, and empties the slots. Returns the number of bytes per filled
/// slot before or after the rebalance, whichever is larger.
fn bytes_of(pattern: &str, slots: &[u32]) -> f64 {
    let core = EntryPool::new(Config::default(), u32::MAX as u64, Columns::default()).unwrap();
    let empty = core.bytes();
    let each = |bytes: usize| bytes as f64 / slots.len() as f64;
    let filled = each(fill(&core, slots));
    core.rebalance(&mut || true);
    core.check();
    let rebalanced = each(core.bytes() - empty);
    for &slot in slots {
        assert_eq!(core.read(slot).content(), Content::Inline(1 + slot as u64));
    }
    slots.iter().for_each(|&slot| {
        core.lock_existing(slot).unwrap().set_payload(0);
    });
    core.rebalance(&mut || true);
    core.check();
    assert_eq!(core.first_made(0), None);
    let left = core.bytes() - empty;
    println!(
        "{pattern}: {filled:.2} bytes a slot, {rebalanced:.2} when rebalanced; {left} at the end"
    );
    // The limit allows for the directory, and for the metadata of released pages.
    assert!(left < (512 << 10) + (32 << 10), "{left} bytes are left");
    filled.max(rebalanced)
}

/// Writes 1 GiB to a device of 16 TiB: at random, in clusters of 128 KiB, and in order.
#[test]
fn slots_far_apart_cost_little_more() {
    let mut rng = Rng::with_seed(seed(11));
    let dense: Vec<u32> = (0..COUNT as u32).map(|nth| 1_000_000 + nth).collect();
    let mut clustered = Vec::new();
    while clustered.len() < COUNT {
        let start = rng.u32(..u32::MAX - 32);
        clustered.extend(start..start + 32);
    }
    let mut random: Vec<u32> = (0..COUNT).map(|_| rng.u32(..u32::MAX)).collect();
    [&mut clustered, &mut random].into_iter().for_each(|slots| {
        let mut seen = HashSet::new();
        slots.retain(|&slot| seen.insert(slot));
    });
    let dense = bytes_of("dense", &dense);
    let clustered = bytes_of("clustered", &clustered);
    let random = bytes_of("random", &random);
    assert!(dense < 8.5, "{dense} bytes");
    assert!(clustered - dense < 8.0, "{clustered} bytes");
    assert!(random - dense < 12.0, "{random} bytes");
}

/// A thread stores and frees objects and rebalances the pool while it holds a guard. No operation
/// waits for the guard.
#[test]
fn a_guard_keeps_nothing_but_its_own() {
    let pool = Pool::new(Config::default()).unwrap();
    let kept = pool.store(b"kept").unwrap();
    let others: Vec<_> = (0..1500u32).map(|nth| pool.store(&nth.to_ne_bytes()).unwrap()).collect();
    let guard = pool.read(&kept).unwrap();
    for round in 0..5u32 {
        let more: Vec<_> = (0..700).map(|_| pool.store(&round.to_ne_bytes()).unwrap()).collect();
        pool.rebalance();
        for handle in more {
            assert_eq!(*pool.read(&handle).unwrap(), round.to_ne_bytes());
            pool.free(handle).unwrap();
        }
        pool.rebalance();
        pool.check();
    }
    others.into_iter().for_each(|handle| pool.free(handle).unwrap());
    pool.rebalance();
    assert_eq!(&*guard, b"kept");
    drop(guard);
    pool.check();
    pool.free(kept).unwrap();
    assert!(pool.is_empty());
}

/// Threads store and free concurrently, each in different handle slots, while slots are removed
/// from the table.
#[test]
fn threads_are_given_different_cells() {
    let pool = Pool::new(Config::default()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (pool, stop) = (&pool, &stop);
        let mut seeds = Rng::with_seed(seed(4));
        for thread in 0..4u64 {
            let mut rng = seeds.fork();
            scope.spawn(move || {
                let mut mine: Vec<(Handle, u64)> = Vec::new();
                let mut nth = 0;
                while !stop.load(Relaxed) {
                    let most = rng.usize(1..3000);
                    while mine.len() < most {
                        nth += 1;
                        let data = thread << 48 | nth;
                        mine.push((pool.store(&data.to_ne_bytes()).unwrap(), data));
                    }
                    let kept = rng.usize(..mine.len());
                    while mine.len() > kept {
                        let (handle, data) = mine.swap_remove(rng.usize(..mine.len()));
                        assert_eq!(*pool.read(&handle).unwrap(), data.to_ne_bytes());
                        pool.free(handle).unwrap();
                    }
                }
                mine.into_iter().for_each(|(handle, _)| pool.free(handle).unwrap());
            });
        }
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            pool.rebalance();
        }
        stop.store(true, Relaxed);
    });
    assert!(pool.is_empty());
    pool.check();
}
