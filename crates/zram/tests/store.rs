//! Tests that no data are lost if one operation of the store fails in part, or is slow while other
//! requests continue. Each round selects a different operation.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use testkit::contents::data;
use testkit::faulty::Faulty;
use testkit::range::range;
use testkit::seed;
use testkit::shadow::Shadow;
use zram::{Config, Damage, Device, Error, SLOT_BYTES, SaveOptions, SaveTo, Selection, Unreadable};

const SLOTS: usize = 32;
const BYTES: usize = SLOTS * SLOT_BYTES;

#[derive(Debug)]
enum Act {
    WriteBack(RangeInclusive<u64>),
    Write(usize, Vec<u8>),
    Discard(usize, usize),
    Read(usize, usize),
    Save,
}

use Act::{Discard, Read, Save, Write, WriteBack};

impl Act {
    /// Performs the act, and returns the offset and bytes of a read.
    fn run(&self, device: &Device) -> Result<(usize, Vec<u8>), Error> {
        match self {
            WriteBack(slots) => {
                let selection = Selection { slots: vec![slots.clone()], ..Selection::default() };
                device.write_back(&selection)?;
            }
            Write(at, bytes) => device.write(*at as u64, bytes)?,
            Discard(at, len) => device.discard(*at as u64, *len as u64)?,
            Read(at, len) => {
                let mut found = vec![0xee; *len];
                device.read(*at as u64, &mut found)?;
                return Ok((*at, found));
            }
            Save => {
                let mut file = Vec::new();
                let how = SaveOptions { unreadable: Unreadable::Refuse, patience: None };
                device.save(SaveTo::Writer(&mut file), &how)?;
                let other = Device::new(Config::new(BYTES as u64).unwrap()).unwrap();
                other.restore_from(&mut &file[..], Damage::Refuse).unwrap();
                return Read(0, BYTES).run(&other);
            }
        }
        Ok((0, Vec::new()))
    }

    /// Returns the offset and the new bytes of an act that changes data.
    fn change(&self) -> (usize, Vec<u8>) {
        match self {
            Write(at, bytes) => (*at, bytes.clone()),
            Discard(at, len) => (*at, vec![0; *len]),
            WriteBack(_) | Read(..) | Save => (0, Vec::new()),
        }
    }

    fn apply(&self, bytes: &mut [u8]) {
        let (at, new) = self.change();
        bytes[at..at + new.len()].copy_from_slice(&new);
    }
}

/// Returns random changes of whole slots and of parts of slots.
fn changes(rng: &mut Rng, block: usize, count: usize) -> Vec<Act> {
    let mut change = || match (range(rng, block, BYTES), rng.u32(..4)) {
        ((at, len), 0) => Discard(at, len),
        ((at, len), _) => Write(at, data(rng, len)),
    };
    (0..count).map(|_| change()).collect()
}

/// Returns acts that move data to the store and back in all possible ways.
fn acts(rng: &mut Rng, block: usize) -> Vec<Act> {
    let last = SLOTS as u64 - 1;
    let noise = |rng: &mut Rng, at: usize, len: usize| {
        Write(at, std::iter::repeat_with(|| rng.u8(..)).take(len).collect())
    };
    let mut acts = vec![noise(rng, 0, BYTES / 2), WriteBack(0..=7), WriteBack(4..=last)];
    // Reads and writes of a part of one slot, parts of two slots, a block, some slots of a block,
    // and more than a block.
    acts.extend([Read(SLOT_BYTES + 9, 100), Read(0, 8 * SLOT_BYTES)]);
    acts.extend([
        noise(rng, 9, 100),
        noise(rng, 6 * SLOT_BYTES - 50, 100),
        noise(rng, 8 * SLOT_BYTES, block),
    ]);
    acts.extend([
        Discard(SLOT_BYTES, SLOT_BYTES),
        Discard(3 * SLOT_BYTES - 1, 2 * SLOT_BYTES),
        Save,
    ]);
    acts.extend(changes(rng, block, 8));
    acts.extend([WriteBack(0..=last), Read(0, BYTES), Save]);
    acts.extend(changes(rng, block, 8));
    acts.extend([WriteBack(0..=last), Save, Read(0, BYTES)]);
    acts
}

/// Returns a device with data in memory, and a shadow of the device.
fn shadow(backing: &Arc<Faulty>, block: usize, rng: &mut Rng) -> Shadow<Device> {
    // With only one stream, the sequence of reads is the same in each run.
    let (backing, streams) = (Some(backing.clone() as _), Some(1));
    let config = Config { block, backing, streams, ..Config::new(BYTES as u64).unwrap() };
    let mut shadow = Shadow::of(Device::new(config).unwrap(), 0, BYTES);
    for at in (0..BYTES).step_by(block) {
        shadow.write(at, &data(rng, block)).unwrap();
    }
    shadow
}

/// Asserts that all data are correct, and that the store works without failures.
fn expect_sound(mut shadow: Shadow<Device>) {
    for _ in 0..2 {
        shadow.compare(0, BYTES);
        shadow.device.check();
        WriteBack(0..=SLOTS as u64 - 1).run(&shadow.device).unwrap();
    }
    shadow.discard(0, BYTES).unwrap();
    shadow.device.check();
    assert_eq!(shadow.device.bd_stat().bd_count, 0);
}

#[test]
fn each_operation_may_fail_in_part() {
    let seed = seed(141);
    for (block, quarters) in
        [SLOT_BYTES, 4 * SLOT_BYTES].into_iter().flat_map(|of| [0, 1, 4].map(|q| (of, q)))
    {
        for nth in 1.. {
            let rng = &mut Rng::with_seed(seed);
            let backing = Arc::new(Faulty::new(2 * BYTES));
            let mut shadow = shadow(&backing, block, rng);
            backing.quarters.store(quarters, Relaxed);
            backing.fail_nth(nth);
            let mut failed = 0;
            for act in acts(rng, block) {
                let (at, new) = act.change();
                match act.run(&shadow.device) {
                    Ok((from, found)) => {
                        act.apply(&mut shadow.bytes);
                        assert!(found == shadow.bytes[from..from + found.len()], "{nth}: {act:?}");
                    }
                    Err(error) => {
                        assert!(matches!(error, Error::Backing { .. }), "{nth}: {error}");
                        assert_eq!(error.errno(), 5);
                        failed += 1;
                        shadow.adopt(at, &new);
                    }
                }
            }
            let is_over = backing.operations() < nth;
            backing.fail_nth(0);
            expect_sound(shadow);
            if is_over {
                println!("blocks of {block}, {quarters} quarters: {nth} operations");
                assert!(failed == 0 && nth > 40, "{failed} failed of {nth}");
                break;
            }
            assert_eq!(failed, 1, "{nth}");
        }
    }
}

/// Returns the data after each of `acts`. The acts `others.1` take effect just before act
/// `others.0`.
fn replay(start: &[u8], acts: &[Act], others: (usize, &[Act])) -> Vec<Vec<u8>> {
    let (mut bytes, mut after) = (start.to_vec(), Vec::new());
    for (nth, act) in acts.iter().enumerate() {
        if nth == others.0 {
            others.1.iter().for_each(|act| act.apply(&mut bytes));
        }
        act.apply(&mut bytes);
        after.push(bytes.clone());
    }
    after
}

/// Runs `acts`, and runs `others` concurrently while an operation of the store is stuck. Returns
/// the stuck act, if any, and the results of all reads.
fn run_beside(
    (device, backing): (&Device, &Faulty),
    acts: &[Act],
    others: &[Act],
) -> (Option<usize>, Vec<(usize, Vec<u8>)>) {
    let now = AtomicUsize::new(0);
    let run = |(nth, act): (usize, &Act)| {
        now.store(nth, Relaxed);
        act.run(device).unwrap()
    };
    thread::scope(|scope| {
        let work = scope.spawn(|| acts.iter().enumerate().map(run).collect());
        while !backing.is_any_stuck() && !work.is_finished() {
            thread::sleep(Duration::from_micros(20));
        }
        let stuck = backing.is_any_stuck().then(|| now.load(Relaxed));
        if stuck.is_some() {
            others.iter().for_each(|act| drop(act.run(device).unwrap()));
        }
        backing.stick(false);
        (stuck, work.join().unwrap())
    })
}

#[test]
fn others_go_on_while_any_operation_is_slow() {
    let seed = seed(142);
    for block in [SLOT_BYTES, 4 * SLOT_BYTES] {
        for nth in 1.. {
            let rng = &mut Rng::with_seed(seed);
            let backing = Arc::new(Faulty::new(2 * BYTES));
            let mut shadow = shadow(&backing, block, rng);
            let acts = acts(rng, block);
            // The concurrent changes are different in each round.
            let mut others = changes(&mut Rng::with_seed(seed + nth), block, 6);
            others.push(Read(0, BYTES));
            backing.stick_nth(nth);
            let (stuck, found) = run_beside((&shadow.device, &backing), &acts, &others);
            let Some(stuck) = stuck else {
                println!("blocks of {block}: {nth} operations");
                assert!(nth > 40, "{nth} operations only");
                break;
            };
            // For each slot, the concurrent changes take effect before or after the slow act.
            let before = replay(&shadow.bytes, &acts, (stuck, &others));
            let behind = replay(&shadow.bytes, &acts, (stuck + 1, &others));
            let either = |at: usize, len: usize, found: &[u8], nth_act: usize| {
                let slots = (at / SLOT_BYTES..(at + len).div_ceil(SLOT_BYTES))
                    .map(|slot| slot * SLOT_BYTES);
                slots.map(|slot| slot.max(at)..(slot + SLOT_BYTES).min(at + len)).all(|part| {
                    let found = &found[part.start - at..part.end - at];
                    found == &before[nth_act][part.clone()] || found == &behind[nth_act][part]
                })
            };
            for (nth_act, (at, found)) in found.iter().enumerate() {
                let is_as = either(*at, found.len(), found, nth_act);
                assert!(is_as, "{nth}, stuck in {stuck}, read in {nth_act}: {:?}", acts[nth_act]);
            }
            let (_, left) = Read(0, BYTES).run(&shadow.device).unwrap();
            assert!(either(0, BYTES, &left, acts.len() - 1), "{nth}, stuck in {stuck}");
            shadow.bytes = left;
            expect_sound(shadow);
        }
    }
}
