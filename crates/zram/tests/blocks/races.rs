//! Tests concurrent writes, discards and reads of blocks.

use super::{device, half, of_blocks};
use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::time::Instant;
use testkit::{is_long, seed, seed_of};
use zram::SLOT_BYTES;

/// Returns the content of a slot: its number, its version, and bytes calculated from these two
/// numbers. Every second version compresses well.
fn stamped(slot: usize, version: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed_of((slot as u64) << 40 | version));
    let run = if version.is_multiple_of(2) { 400 } else { 20 };
    let mut bytes = [slot as u64, version].map(u64::to_ne_bytes).concat();
    while bytes.len() < SLOT_BYTES {
        let len = (bytes.len() + rng.usize(1..=run)).min(SLOT_BYTES);
        bytes.resize(len, rng.u8(..));
    }
    bytes
}

/// Threads write single slots and whole blocks concurrently. No read returns a mixture of versions,
/// or data of another slot. No read returns a version that was outdated before the read.
#[test]
fn stress_conversions_under_eight_threads() {
    let seed = seed(20);
    for order in [1, 2, 4] {
        let block = SLOT_BYTES << order;
        let slots = 6 << order;
        let device = device(block, slots * SLOT_BYTES);
        // The latest version and the last completed version of each slot. A writer locks the slots
        // that it writes.
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
                // A discarded slot reads as zeros until the next version is written, so readers
                // require no version.
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

/// In each round, `count` threads call `act` at the same time, with the numbers of the round and of
/// the thread. After each round, `settled` checks the result.
fn meet(rounds: usize, count: usize, act: impl Fn(usize, usize) + Sync, settled: impl Fn(usize)) {
    let (start, end) = (Barrier::new(count + 1), Barrier::new(count + 1));
    let failed = AtomicBool::new(false);
    let note = |work: &dyn Fn()| {
        // A thread that fails still reaches the barriers, where the other threads wait for it.
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

/// Returns the offset of the block of a round. The blocks of different rounds are far apart, so the
/// entries of a round's block do not exist before the round.
fn place(round: usize) -> u64 {
    round as u64 * (16 << 20)
}

/// Threads write different bytes of one slot. The first write moves the slot out of its block.
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

/// Three threads write a block, discard the block, and write its first slot at the same time.
/// Afterwards each slot contains the data or zeros.
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
            // The check takes longer with each block, so it runs only while few blocks exist.
            if round < 200 {
                device.check();
            }
        },
    );
    device.check();
}

/// A block and both of its slots are written at the same time. A block without live members must
/// not remain.
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
                // One of these writes probably coincides with the write of the block.
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

/// One thread writes a block while another thread changes one of the block's slots. The delay
/// between the threads varies, because the critical moments last only microseconds.
#[test]
fn stress_a_slot_changes_amid_the_making_of_its_block() {
    // Each round checks the whole device, which takes longer with each block.
    let rounds = rounds().min(3000);
    let (block, mut rng) = (4 * SLOT_BYTES, Rng::with_seed(seed(12)));
    let mut whole = half(&mut rng, block);
    // The slot that is discarded later is same-filled, so it has its own entry after the write of
    // the block.
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
                // The block is removed after the check, so that later checks are fast.
                device.check();
                device.discard(place(round, kind), block as u64).unwrap();
            },
        );
    }
}

/// One thread writes slots as a block that had no entry, while another thread reads the slots.
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
