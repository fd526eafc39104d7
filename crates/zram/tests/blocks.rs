//! Blocks of several slots: parts of them read, written and discarded, from one thread and from
//! eight.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use page::{Request, Supply, page_size};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Instant;
use testkit::device::{DeviceModel, Limits, Setup};
use testkit::idle::{mark_idle_up_to, next_second};
use testkit::supply::refuse_every;
use testkit::{Run, is_long, scaled, seed};
use zram::{Compaction, Config, Device, Error, OrderStat, SLOT_BYTES};
use zsmalloc::{Geometry, KernelGeometry};

fn config(block: usize, disksize: usize) -> Config {
    Config { block, streams: Some(2), ..Config::new(disksize as u64).unwrap() }
}

fn device(block: usize, disksize: usize) -> Device {
    Device::new(config(block, disksize)).unwrap()
}

fn of_blocks(device: &Device) -> OrderStat {
    device.order_stats().pop().unwrap()
}

fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.u8(..)).collect()
}

/// Compresses to about a half, whatever the length.
fn half(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = noise(rng, len);
    bytes.chunks_mut(64).for_each(|chunk| chunk[32..].fill(7));
    bytes
}

#[test]
fn a_shadow_agrees_at_every_order() {
    let kernel = Geometry::Kernel(KernelGeometry::default());
    for (nth, (order, algorithm, geometry)) in [
        (0, "lz4", Geometry::default()),
        (1, "lz4", Geometry::default()),
        (2, "zstd", Geometry::default()),
        (3, "lz4", kernel),
        (4, "lz4hc", Geometry::default()),
        (4, "zstd", kernel),
    ]
    .into_iter()
    .enumerate()
    {
        let block = SLOT_BYTES << order;
        // The last block is not a whole one.
        let setup = Setup::new(12 * block + SLOT_BYTES);
        let setup = Setup { block, algorithm, geometry, is_compacted: true, ..setup };
        let steps = scaled(2_500, 50_000);
        let run = Run { seed: seed(nth as u64), steps, first: 0, every: 100 };
        let report = testkit::run::<DeviceModel>(setup, run).unwrap();
        println!("order {order}, {algorithm}, {geometry:?}: {report:?}");
        let blocks = report.blocks.unwrap();
        let is_used = blocks.written > 100 && blocks.partial_writes > 100 && blocks.rewrites > 10;
        assert!(order == 0 || is_used, "{blocks:?}");
    }
}

#[test]
fn a_limit_that_swings_loses_nothing() {
    for order in [1, 2, 4] {
        let block = SLOT_BYTES << order;
        let setup = Setup { block, limits: Limits::Pages, ..Setup::new(16 * block) };
        let steps = scaled(2_000, 100_000);
        let run = Run { seed: seed(order), steps, first: 0, every: 50 };
        for is_compacted in [false, true] {
            let report = testkit::run::<DeviceModel>(Setup { is_compacted, ..setup }, run).unwrap();
            println!("order {order}: {report:?}");
            assert!(report.refused > 20, "order {order}: refused {} times only", report.refused);
        }
    }
}

#[test]
fn every_refusal_loses_nothing() {
    let seed = seed(7);
    for (order, from_then_on) in [(2, false), (2, true), (4, false)] {
        let block = SLOT_BYTES << order;
        refuse_every(from_then_on, |refuse| {
            let setup = Setup { block, refuse: Some(refuse), ..Setup::new(4 * block) };
            let run = Run { seed, steps: 60, first: 0, every: 20 };
            Some(testkit::run::<DeviceModel>(setup, run)?.requests)
        });
    }
}

/// Grants all until it is told to refuse all.
#[derive(Debug, Default)]
struct Spent(AtomicBool);

impl Supply for Spent {
    fn grant(&self, _: Request) -> bool {
        !self.0.load(Relaxed)
    }
}

/// Has `act` do something to the first block of a device of 4 slots a block, after `before` was
/// done with it and memory has run out; with so many entries made elsewhere, for each number of
/// them: so for some the last entry that fits is any of those that `act` needs. Each refusal goes
/// to `refused`, with the device; there are some.
fn at_the_last_word(
    before: impl Fn(&Device),
    act: impl Fn(&Device) -> Result<(), Error>,
    refused: impl Fn(&Device, Error),
) {
    let refusals = AtomicUsize::new(0);
    without_words(before, |device| {
        if let Err(error) = act(device) {
            refusals.fetch_add(1, Relaxed);
            refused(device, error);
        }
    });
    assert!(refusals.into_inner() > 0);
}

/// The same, whatever comes of it.
fn without_words(before: impl Fn(&Device), act: impl Fn(&Device)) {
    let block = 4 * SLOT_BYTES;
    for others in 0..100 {
        let spent = Arc::new(Spent::default());
        let supply = Some(spent.clone() as Arc<dyn Supply>);
        let config = Config { supply, compaction: Compaction::Manual, ..config(block, 64 * block) };
        let device = Device::new(config).unwrap();
        before(&device);
        for nth in 0..others {
            // A pattern, which needs no more than its entry.
            device.write((2 * block + nth * SLOT_BYTES) as u64, &[7; SLOT_BYTES]).unwrap();
        }
        spent.0.store(true, Relaxed);
        act(&device);
        device.check();
    }
}

fn slots_of(device: &Device, count: usize) -> Vec<Vec<u8>> {
    let mut found = vec![0xee; count * SLOT_BYTES];
    device.read(0, &mut found).unwrap();
    found.chunks(SLOT_BYTES).map(<[u8]>::to_vec).collect()
}

/// Slot 0 is in the block, and stays where no entry can be made for it; slot 1 has one, and goes.
#[test]
fn a_discard_frees_what_has_entries_though_another_has_none() {
    let whole = half(&mut Rng::with_seed(seed(13)), 4 * SLOT_BYTES);
    let slot = |nth: usize| &whole[nth * SLOT_BYTES..][..SLOT_BYTES];
    at_the_last_word(
        |device| {
            device.write(0, &whole).unwrap();
            device.write(SLOT_BYTES as u64, slot(0)).unwrap();
        },
        |device| device.discard(0, 2 * SLOT_BYTES as u64),
        |device, error| {
            assert!(matches!(error, Error::OutOfMemory { slot: 0, .. }), "{error}");
            let found = slots_of(device, 4);
            assert!(found[1].iter().all(|&byte| byte == 0), "slot 1 has an entry, and stayed");
            assert!([0, 2, 3].iter().all(|&nth| found[nth] == slot(nth)));
        },
    );
}

/// The block is stored anew with it, in its own place: that needs no entry (I6).
#[test]
fn an_overwrite_of_a_slot_in_its_block_needs_no_entry() {
    let (whole, anew) = (half(&mut Rng::with_seed(seed(15)), 4 * SLOT_BYTES), AtomicUsize::new(0));
    // Little of one may come out longer: codecs differ by a few bytes from one content to the next.
    for part in [0..SLOT_BYTES, 100..3000] {
        without_words(
            |device| device.write(0, &whole).unwrap(),
            |device| {
                let at = SLOT_BYTES + part.start;
                let without = device.write(at as u64, &vec![0x41; part.len()]);
                let mut expected = whole.clone();
                expected[at..][..part.len()].fill(0x41);
                assert_eq!(without, Ok(()));
                assert!(slots_of(device, 4).concat() == expected);
                anew.fetch_add(usize::from(device.order_stats()[1].rewrites > 0), Relaxed);
            },
        );
    }
    assert!(anew.into_inner() > 0, "there was an entry for each");
}

/// Of a block that can't be written as one, as there is no room, or no entry for its pattern, those
/// slots are written that come before the one that the error names, and no others.
#[test]
fn a_refused_write_of_a_block_names_the_first_slot_that_is_not_written() {
    let mut rng = Rng::with_seed(seed(14));
    let old = half(&mut rng, 4 * SLOT_BYTES);
    for alone in [0, 2] {
        let before = |device: &Device| {
            device.write(0, &old).unwrap();
            // These have entries already.
            for nth in 0..alone {
                let at = nth * SLOT_BYTES;
                device.write(at as u64, &old[at..][..SLOT_BYTES]).unwrap();
            }
        };
        let patterned = |mut new: Vec<u8>| {
            new[2 * SLOT_BYTES..3 * SLOT_BYTES].fill(0x55);
            new
        };
        // Each fits where the old one is, so none needs room.
        let mut new = half(&mut rng, 4 * SLOT_BYTES);
        new.chunks_mut(64).for_each(|chunk| chunk[16..].fill(7));
        let new = patterned(new);
        without_words(before, |device| {
            assert_eq!(device.write(0, &new), Ok(()));
            assert!(slots_of(device, 4).concat() == new);
        });
        // None does.
        let new = patterned(noise(&mut rng, 4 * SLOT_BYTES));
        at_the_last_word(
            before,
            |device| device.write(0, &new),
            |device, error| {
                let Error::OutOfMemory { slot: named, .. } = error else { panic!("{error}") };
                for (nth, found) in slots_of(device, 4).iter().enumerate() {
                    let expected = if nth < named as usize { &new } else { &old };
                    assert!(found == &expected[nth * SLOT_BYTES..][..SLOT_BYTES], "slot {nth}");
                }
            },
        );
    }
}

/// A slot's content: which it is, its version, and what follows from both. Half of them compress
/// well.
fn stamped(slot: usize, version: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed((slot as u64) << 40 | version);
    let run = if version.is_multiple_of(2) { 400 } else { 20 };
    let mut bytes = [slot as u64, version].map(u64::to_ne_bytes).concat();
    while bytes.len() < SLOT_BYTES {
        let len = (bytes.len() + rng.usize(1..=run)).min(SLOT_BYTES);
        bytes.resize(len, rng.u8(..));
    }
    bytes
}

/// Writers of slots and of whole blocks, of the same ones: no read finds a mixture, another slot's
/// data, or an older version than was there before it began.
#[test]
fn stress_conversions_under_eight_threads() {
    let seed = seed(20);
    for order in [1, 2, 4] {
        let block = SLOT_BYTES << order;
        let slots = 6 << order;
        let device = device(block, slots * SLOT_BYTES);
        // Versions a slot has had for sure; who writes it has it locked.
        let versions: Vec<_> = (0..slots).map(|_| (Mutex::new(0), AtomicU64::new(0))).collect();
        let write = |first: usize, count: usize, is_gone: bool| {
            let mut locked: Vec<_> =
                versions[first..first + count].iter().map(|of| of.0.lock().unwrap()).collect();
            locked.iter_mut().for_each(|version| **version += 1);
            let slots = (first..).zip(&locked).map(|(slot, version)| stamped(slot, **version));
            let bytes = slots.collect::<Vec<_>>().concat();
            let at = (first * SLOT_BYTES) as u64;
            match is_gone {
                false => device.write(at, &bytes).unwrap(),
                true => device.discard(at, bytes.len() as u64).unwrap(),
            }
            for (of, version) in versions[first..].iter().zip(&locked) {
                // What was discarded reads as zeros until the next version: any may be found then.
                of.1.store(if is_gone { 0 } else { **version }, Relaxed);
            }
        };
        let read = |first: usize, count: usize| {
            let before: Vec<u64> =
                versions[first..first + count].iter().map(|of| of.1.load(Relaxed)).collect();
            let mut bytes = vec![0xee; count * SLOT_BYTES];
            device.read((first * SLOT_BYTES) as u64, &mut bytes).unwrap();
            for (nth, found) in bytes.chunks(SLOT_BYTES).enumerate() {
                let slot = first + nth;
                let version = u64::from_ne_bytes(*found[8..].first_chunk().unwrap());
                if version == 0 {
                    assert!(found.iter().all(|&byte| byte == 0), "slot {slot} is torn");
                    continue;
                }
                assert!(found == stamped(slot, version), "slot {slot} holds another's, or is torn");
                let after = versions[slot].1.load(Relaxed);
                let is_stale = after != 0 && before[nth] <= after && version < before[nth];
                assert!(!is_stale, "slot {slot}: {version} after {}", before[nth]);
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (device, write, read) = (&device, &write, &read);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed + thread);
                    for _ in 0..if is_long() { 100_000 } else { 1_500 } {
                        let first = rng.usize(..slots);
                        match rng.u32(..16) {
                            0..4 => write(first >> order << order, 1 << order, false),
                            4..7 => write(first, 1, false),
                            7 => write(first, rng.usize(1..=(slots - first).min(3)), rng.bool()),
                            8 if rng.u32(..32) == 0 => drop(device.compact()),
                            9 => device.mark_idle().unwrap(),
                            10 => drop(device.block_state().count()),
                            _ => read(first, rng.usize(1..=(slots - first).min(2 << order))),
                        }
                    }
                });
            }
        });
        device.check();
        read(0, slots);
        let stat = of_blocks(&device);
        println!("order {order}: {stat:?}");
        assert!(stat.written > 0 && stat.partial_writes > 0 && stat.rewrites > 0, "{stat:?}");
        device.discard(0, device.disksize()).unwrap();
        device.check();
        assert_eq!(device.mm_stat().orig_data_size, 0);
    }
}

/// Has `count` threads do what `act` says of the round and who they are, at once; then `settled`
/// looks at it.
fn meet(rounds: usize, count: usize, act: impl Fn(usize, usize) + Sync, settled: impl Fn(usize)) {
    let (start, end) = (Barrier::new(count + 1), Barrier::new(count + 1));
    let failed = AtomicBool::new(false);
    let note = |work: &dyn Fn()| {
        // Who fails still comes to the barriers: the others wait for him there.
        failed.fetch_or(catch_unwind(AssertUnwindSafe(work)).is_err(), Relaxed);
    };
    std::thread::scope(|scope| {
        for thread in 0..count {
            let (start, end, act, note, failed) = (&start, &end, &act, &note, &failed);
            scope.spawn(move || {
                for round in 0..rounds {
                    start.wait();
                    if failed.load(Relaxed) {
                        return;
                    }
                    note(&|| act(round, thread));
                    end.wait();
                }
            });
        }
        for round in 0..rounds {
            start.wait();
            if failed.load(Relaxed) {
                return;
            }
            end.wait();
            note(&|| settled(round));
        }
    });
    assert!(!failed.into_inner(), "see above");
}

fn rounds() -> usize {
    if is_long() { 20_000 } else { 600 }
}

/// Where the block of a round lies: far from the others, so that its entries are made one by one.
fn place(round: usize) -> u64 {
    round as u64 * (16 << 20)
}

/// Writers of different bytes of one slot, the first of whom takes it out of its block.
#[test]
fn stress_partial_writes_to_a_slot_of_a_block() {
    const SHARE: usize = SLOT_BYTES / 4;
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(8)));
    let device = device(block, block);
    let whole = half(&mut rng, block);
    let written =
        |round: usize, thread: usize| [round as u8 ^ 0x80, thread as u8].repeat(SHARE / 2);
    device.write(0, &whole).unwrap();
    meet(
        rounds(),
        4,
        |round, thread| {
            let at = SLOT_BYTES + thread * SHARE;
            device.write(at as u64, &written(round, thread)).unwrap();
        },
        |round| {
            let mut found = vec![0; block];
            device.read(0, &mut found).unwrap();
            for thread in 0..4 {
                let share = &found[SLOT_BYTES + thread * SHARE..][..SHARE];
                assert!(share == written(round, thread), "round {round}: {thread} lost a write");
            }
            assert!(
                found[..SLOT_BYTES] == whole[..SLOT_BYTES]
                    && found[2 * SLOT_BYTES..] == whole[2 * SLOT_BYTES..]
            );
            device.write(0, &whole).unwrap();
        },
    );
    device.check();
}

/// A block is written while it is discarded, or while another is: each slot has the data or none.
#[test]
fn stress_a_block_is_written_and_discarded() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(9)));
    let device = device(block, place(rounds()) as usize);
    let whole = half(&mut rng, block);
    meet(
        rounds(),
        3,
        |round, thread| match thread {
            0 => device.write(place(round), &whole).unwrap(),
            1 => device.write(place(round), &whole[..SLOT_BYTES]).unwrap(),
            _ => device.discard(place(round), block as u64).unwrap(),
        },
        |round| {
            let mut found = vec![0; block];
            device.read(place(round), &mut found).unwrap();
            for (found, whole) in found.chunks(SLOT_BYTES).zip(whole.chunks(SLOT_BYTES)) {
                assert!(found == whole || found.iter().all(|&byte| byte == 0), "round {round}");
            }
            // The entries are looked at as long as there are few.
            if round < 200 {
                device.check();
            }
        },
    );
    device.check();
}

/// A block is written while both its slots are: none of it is kept without a slot that is in it.
#[test]
fn stress_a_block_and_all_its_slots_are_written() {
    let (block, mut rng) = (2 * SLOT_BYTES, Rng::with_seed(seed(11)));
    let device = device(block, place(rounds()) as usize);
    let whole = half(&mut rng, block);
    meet(
        rounds(),
        3,
        |round, thread| match thread {
            0 => device.write(place(round), &whole).unwrap(),
            _ => {
                // As often as it takes to meet the block's.
                let nth = (thread - 1) * SLOT_BYTES;
                for _ in 0..5 {
                    device.write(place(round) + nth as u64, &whole[nth..][..SLOT_BYTES]).unwrap();
                }
            }
        },
        |round| {
            let mut found = vec![0; block];
            device.read(place(round), &mut found).unwrap();
            assert!(found == whole, "round {round}");
            device.check();
        },
    );
}

/// One thread writes a block, the other one of its slots, in whole or in part, or discards it: at
/// every moment of the first's work, as what must not come in between takes but a microsecond of
/// it.
#[test]
fn stress_a_slot_changes_amid_the_making_of_its_block() {
    // All is checked after each, which takes the longer the more there were.
    let rounds = rounds().min(3000);
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(12)));
    let mut whole = half(&mut rng, block);
    // The one that is discarded has an entry of its own afterwards.
    whole[2 * SLOT_BYTES..3 * SLOT_BYTES].fill(0x55);
    let slot = half(&mut rng, SLOT_BYTES);
    let device = device(block, 3 * place(rounds) as usize);
    let place = |round: usize, kind: usize| place(3 * round + kind);
    let begun = Instant::now();
    (0..50).for_each(|_| device.write(place(0, 0), &whole).unwrap());
    let takes = begun.elapsed() / 50;
    let turns: Vec<_> = (0..rounds).map(|_| takes.mul_f64(1.5 * rng.f64())).collect();
    for kind in 0..3 {
        meet(
            rounds,
            2,
            |round, thread| {
                let (begun, at) = (Instant::now(), place(round, kind));
                if thread == 0 {
                    return device.write(at, &whole).unwrap();
                }
                while begun.elapsed() < turns[round] {
                    std::hint::spin_loop();
                }
                match kind {
                    0 => device.write(at + SLOT_BYTES as u64, &slot).unwrap(),
                    1 => device.write(at + SLOT_BYTES as u64, &slot[..9]).unwrap(),
                    _ => device.discard(at + 2 * SLOT_BYTES as u64, SLOT_BYTES as u64).unwrap(),
                }
            },
            |round| {
                let mut found = vec![0; block];
                device.read(place(round, kind), &mut found).unwrap();
                for (nth, found) in found.chunks(SLOT_BYTES).enumerate() {
                    let of_block = &whole[nth * SLOT_BYTES..][..SLOT_BYTES];
                    let is_slots = (kind, nth) == (0, 1) && found == slot
                        || (kind, nth) == (1, 1) && found[..9] == slot[..9]
                        || (kind, nth) == (2, 2) && found.iter().all(|&byte| byte == 0);
                    assert!(found == of_block || is_slots, "round {round}, {kind}, slot {nth}");
                }
                // All of it, without what earlier rounds left.
                device.check();
                device.discard(place(round, kind), block as u64).unwrap();
            },
        );
    }
}

/// Slots become a block, which had no entry before, while they are read.
#[test]
fn stress_slots_become_a_block_while_they_are_read() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(10)));
    let device = device(block, place(rounds()) as usize);
    let (before, after) = (half(&mut rng, block), half(&mut rng, block));
    for round in 0..rounds() {
        before.chunks(SLOT_BYTES).enumerate().for_each(|(nth, slot)| {
            device.write(place(round) + (nth * SLOT_BYTES) as u64, slot).unwrap();
        });
    }
    meet(
        rounds(),
        2,
        |round, thread| match thread {
            0 => device.write(place(round), &after).unwrap(),
            _ => {
                let mut found = vec![0; block];
                while found != after {
                    device.read(place(round), &mut found).unwrap();
                    for (nth, found) in found.chunks(SLOT_BYTES).enumerate() {
                        let is = |bytes: &[u8]| found == &bytes[nth * SLOT_BYTES..][..SLOT_BYTES];
                        assert!(is(&before) || is(&after), "round {round}, slot {nth}");
                    }
                }
            }
        },
        |_| {},
    );
    device.check();
}

#[test]
fn what_is_done_with_blocks_is_counted() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(1)));
    let device = device(block, 64 * block);
    let bytes = half(&mut rng, 3 * block);
    device.write(block as u64, &bytes).unwrap();
    let mut back = vec![0; 3 * block];
    device.read(block as u64, &mut back).unwrap();
    assert!(back == bytes);
    let stat = of_blocks(&device);
    assert_eq!((stat.block, stat.written, stat.read), (block as u64, 3, 3));
    // A slot of it, eight times: decompressed once, but not read whole.
    (0..8).for_each(|nth| device.read(block as u64 + nth * 512, &mut back[..512]).unwrap());
    assert_eq!(of_blocks(&device).partial_reads, 8);
    // The third slot of the first: it has one of its own, and one of four is not yet too many. Two
    // are.
    let at = |slot: usize| (block + slot * SLOT_BYTES) as u64;
    device.write(at(2), &bytes[..SLOT_BYTES]).unwrap();
    let stat = of_blocks(&device);
    assert_eq!((stat.partial_writes, stat.dead_slots + stat.rewrites), (1, 1));
    device.discard(at(0), 2 * SLOT_BYTES as u64).unwrap();
    let stat = of_blocks(&device);
    assert_eq!((stat.dead_slots, device.mm_stat().orig_data_size), (0, 10 * SLOT_BYTES as u64));
    device.discard(at(3), SLOT_BYTES as u64).unwrap();
    device.check();
    assert_eq!(device.mm_stat().orig_data_size, 9 * SLOT_BYTES as u64);
}

#[test]
fn same_filled_slots_cost_nothing() {
    let (block, mut rng) = (16 * SLOT_BYTES, Rng::with_seed(seed(2)));
    let (one, other) = (device(block, 4 * block), device(block, 4 * block));
    let mut bytes = half(&mut rng, 8 * SLOT_BYTES);
    one.write(0, &bytes).unwrap();
    one.discard(0, one.disksize()).unwrap();
    // Eight slots of data, and eight of patterns.
    bytes.resize(block, 0x55);
    bytes[12 * SLOT_BYTES..].fill(0);
    one.write(0, &bytes).unwrap();
    let mut back = vec![1; block];
    one.read(0, &mut back).unwrap();
    assert!(back == bytes);
    let stat = one.mm_stat();
    assert_eq!((stat.same_pages, stat.orig_data_size), (8, block as u64));
    let mut eight = zcomp::codecs()[0]
        .prepare(&zcomp::Params::default(), block)
        .and_then(|prepared| prepared.stream_owned())
        .unwrap();
    let alone = eight.compress(&bytes[..8 * SLOT_BYTES], &mut vec![0; 2 * block]).unwrap().unwrap();
    assert_eq!(stat.compr_data_size, alone as u64 + 2);
    // All of one pattern: no object.
    other.write(0, &vec![9; block]).unwrap();
    let stat = other.mm_stat();
    assert_eq!((stat.same_pages, stat.compr_data_size), (16, 0));
    other.check();
}

#[test]
fn raw_blocks_are_kept_as_they_are() {
    let (block, mut rng) = (8 * SLOT_BYTES, Rng::with_seed(seed(3)));
    let device = device(block, 2 * block);
    let mut bytes = noise(&mut rng, 2 * block);
    bytes[block..block + 3 * SLOT_BYTES].fill(0);
    device.write(0, &bytes).unwrap();
    let stat = device.mm_stat();
    assert_eq!((stat.huge_pages, stat.same_pages), (8 + 5, 3));
    assert_eq!(device.block_state().filter(|state| state.is_huge).count(), 13);
    let mut back = vec![0; 2 * block];
    device.read(0, &mut back).unwrap();
    assert!(back == bytes);
    device.check();
}

/// At the limit a slot of a block is overwritten at the block's own place.
#[test]
fn an_overwrite_that_needs_no_more_room_never_fails() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(4)));
    let device = device(block, 64 * block);
    let bytes = half(&mut rng, 64 * block);
    device.write(0, &bytes).unwrap();
    device.compact();
    device.set_mem_limit(Some(1));
    let mut found = vec![0; SLOT_BYTES];
    for slot in (0..256).map(|nth| nth * 37 % 256) {
        // More zeros than before, so that it needs less.
        let mut new = bytes[slot * SLOT_BYTES..][..SLOT_BYTES].to_vec();
        new[100..3000].fill(0);
        device.write((slot * SLOT_BYTES) as u64, &new).unwrap();
        device.read((slot * SLOT_BYTES) as u64, &mut found).unwrap();
        assert!(found == new, "slot {slot}");
    }
    device.check();
}

#[test]
fn nothing_dead_is_left_by_compact() {
    let (block, mut rng) = (16 * SLOT_BYTES, Rng::with_seed(seed(5)));
    let device = device(block, 64 * block);
    device.write(0, &half(&mut rng, 64 * block)).unwrap();
    (0..64).for_each(|nth| device.discard((nth * block) as u64, SLOT_BYTES as u64).unwrap());
    let stat = of_blocks(&device);
    assert!(stat.dead_slots > 0 && stat.dead_slots <= 64 * 16 / 32 + 1, "{stat:?}");
    device.compact();
    device.check();
    assert_eq!(of_blocks(&device).dead_slots, 0);
}

#[test]
fn marks_and_times_are_the_blocks() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(6)));
    let config = Config { track_access: true, ..config(block, 4 * block) };
    let device = Device::new(config).unwrap();
    device.write(0, &half(&mut rng, 2 * block)).unwrap();
    device.write(SLOT_BYTES as u64, &half(&mut rng, SLOT_BYTES)).unwrap();
    device.mark_idle().unwrap();
    let idle = || device.block_state().map(|state| state.is_idle).collect::<Vec<_>>();
    assert_eq!(idle(), [true; 8]);
    assert!(device.block_state().all(|state| state.accessed_seconds > Some(0)));
    // A read of one slot is one of the block; slot 1 is not in it.
    device.read(2 * SLOT_BYTES as u64, &mut [0]).unwrap();
    assert_eq!(idle(), [false, true, false, false, true, true, true, true]);
    device.mark_idle_older(1 << 40).unwrap();
    assert_eq!(idle(), [false; 8]);
}

/// A block that is stored anew without its dead slots was not accessed.
#[test]
fn blocks_that_are_stored_anew_stay_idle() {
    let (block, mut rng) = (16 * SLOT_BYTES, Rng::with_seed(seed(17)));
    let device = device(block, 4 * block);
    device.write(0, &half(&mut rng, 4 * block)).unwrap();
    device.discard(0, SLOT_BYTES as u64).unwrap();
    device.mark_idle().unwrap();
    assert_eq!(of_blocks(&device).rewrites, 0);
    device.compact();
    assert_eq!(of_blocks(&device).rewrites, 1);
    assert!(device.block_state().all(|state| state.is_idle));
    device.read(block as u64 - 1, &mut [0]).unwrap();
    assert_eq!(device.block_state().filter(|state| !state.is_idle).count(), 15);
}

/// What is written into its block, as there is no room beside it, is as young as what is written
/// elsewhere.
#[test]
fn a_slot_that_is_written_into_its_block_is_young() {
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(16)));
    let config = Config { track_access: true, ..config(block, 16 * block) };
    let device = Device::new(config).unwrap();
    let mut bytes = half(&mut rng, 16 * block);
    device.write(0, &bytes).unwrap();
    device.compact();
    device.set_mem_limit(Some(1));
    let last = next_second();
    bytes[100..3000].fill(0);
    device.write(0, &bytes[..SLOT_BYTES]).unwrap();
    let stat = of_blocks(&device);
    assert_eq!((stat.rewrites, stat.dead_slots), (1, 0), "it went beside its block");
    mark_idle_up_to(&device, last);
    let young = device.block_state().filter(|state| !state.is_idle).map(|state| state.index);
    assert_eq!(young.collect::<Vec<_>>(), [0, 1, 2, 3]);
    device.check();
}

#[test]
fn impossible_blocks_are_refused() {
    for block in [0, 1, 2048, 12288, 1 << 17, usize::MAX] {
        let refused = Device::new(config(block, 1 << 20)).unwrap_err();
        assert_eq!((refused.errno(), refused), (22, Error::Block { bytes: block }));
    }
    let largest = |block| Device::new(config(block, 16 << 40)).unwrap_err().to_string();
    assert!(largest(SLOT_BYTES).contains("16 TiB") && largest(16 * SLOT_BYTES).contains("15 TiB"));
}

/// A slot in a block has no entry: of 16 slots written as one, all that is known lies in 8 bytes.
#[test]
fn slots_in_blocks_cost_no_words() {
    const SLOTS: usize = 1 << 15;
    let block = 16 * SLOT_BYTES;
    let device = device(block, SLOTS * SLOT_BYTES);
    let overhead = || device.mem_total() - device.mm_stat().mem_used_total;
    let before = overhead();
    let mut rng = Rng::with_seed(seed(18));
    for at in (0..SLOTS * SLOT_BYTES).step_by(block) {
        let bytes = noise(&mut rng, 64).repeat(block / 64);
        device.write(at as u64, &bytes).unwrap();
    }
    let of_blocks = overhead() - before;
    println!("{of_blocks} bytes beside the pool for {SLOTS} slots");
    // With the maps and descriptors of the pool; entries alone would be 8 bytes each.
    assert!(of_blocks < SLOTS as u64 * 4, "{of_blocks} bytes for {SLOTS} slots");
    // One that is written alone needs its entry, and with all others the entries of a leaf at most.
    device.write(5 * SLOT_BYTES as u64, &noise(&mut rng, SLOT_BYTES)).unwrap();
    assert!(overhead() - before < of_blocks + 3 * page_size() as u64);
    // Nor is one needed to free all of a block.
    device.discard(0, device.disksize()).unwrap();
    device.check();
    assert_eq!(device.mm_stat().orig_data_size, 0);
}

/// Entries come and go while slots change between their blocks and entries of their own, in every
/// way there is.
#[test]
fn holes_are_kept_as_long_as_the_block() {
    let block = 4 * SLOT_BYTES;
    let device = device(block, 2 * block);
    let mut rng = Rng::with_seed(seed(19));
    let whole = half(&mut rng, block);
    let held = |expected: [bool; 4]| {
        device.check();
        let mut found = vec![0xee; block];
        device.read(0, &mut found).unwrap();
        let slots: Vec<u64> = device.block_state().map(|state| state.index).collect();
        for (nth, is_there) in expected.into_iter().enumerate() {
            let slot = nth * SLOT_BYTES..(nth + 1) * SLOT_BYTES;
            match is_there {
                true => assert!(found[slot.clone()] == whole[slot], "slot {nth}"),
                false => assert!(found[slot].iter().all(|&byte| byte == 0), "slot {nth}"),
            }
            assert_eq!(slots.contains(&(nth as u64)), is_there, "slot {nth}");
        }
    };
    let slot = |nth: usize| (nth * SLOT_BYTES) as u64;
    device.write(0, &whole).unwrap();
    held([true; 4]);
    device.discard(slot(1), SLOT_BYTES as u64).unwrap();
    held([true, false, true, true]);
    // One with an entry of its own becomes a hole, too: what the block has of it is old.
    device.write(slot(2), &whole[2 * SLOT_BYTES..3 * SLOT_BYTES]).unwrap();
    held([true, false, true, true]);
    device.discard(slot(2), SLOT_BYTES as u64).unwrap();
    held([true, false, false, true]);
    device.write(slot(1) + 9, &whole[SLOT_BYTES + 9..2 * SLOT_BYTES]).unwrap();
    device.write(slot(1), &whole[SLOT_BYTES..SLOT_BYTES + 9]).unwrap();
    held([true, true, false, true]);
    // The last of those in the object takes the object and the holes along.
    device.discard(slot(0), SLOT_BYTES as u64).unwrap();
    device.discard(slot(3), SLOT_BYTES as u64).unwrap();
    held([false, true, false, false]);
    device.write(0, &whole).unwrap();
    held([true; 4]);
    device.write_zeroes(slot(1), 2 * SLOT_BYTES as u64).unwrap();
    held([true, false, false, true]);
    device.discard(0, block as u64).unwrap();
    held([false; 4]);
}
