//! Tests requests for blocks when memory is refused. Each slot then contains its old data or its
//! new data.

use super::{config, half, noise};
use fastrand::Rng;
use page::{Request, Supply};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use testkit::device::{DeviceModel, Limits, Setup};
use testkit::supply::refuse_every;
use testkit::{Run, scaled, seed};
use zram::{Compaction, Config, Device, Error, SLOT_BYTES};

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

/// A supply that refuses every request after the flag is set.
#[derive(Debug, Default)]
struct Spent(AtomicBool);

impl Supply for Spent {
    fn grant(&self, _: Request) -> bool {
        !self.0.load(Relaxed)
    }
}

/// For each number `n` from 0 to 99, calls `before` on a device with 4 slots per block, and creates
/// `n` other entries. Refuses all further memory, and calls `act`. So each entry that `act` needs
/// is the first refused entry in one of the rounds. Calls `refused` with the device and each error
/// of `act`. At least one error must occur.
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

/// Does the same as `at_the_last_word`, except that `act` is allowed to succeed in every round.
fn without_words(before: impl Fn(&Device), act: impl Fn(&Device)) {
    let block = 4 * SLOT_BYTES;
    for others in 0..100 {
        let spent = Arc::new(Spent::default());
        let supply = Some(spent.clone() as Arc<dyn Supply>);
        let config = Config { supply, compaction: Compaction::Manual, ..config(block, 64 * block) };
        let device = Device::new(config).unwrap();
        before(&device);
        for nth in 0..others {
            // A same-filled slot needs only its entry.
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

/// Slot 0 is in the block, and its entry can't be created. Slot 1 has an entry.
#[test]
fn a_discard_of_a_slot_in_its_block_needs_no_entry() {
    let whole = half(&mut Rng::with_seed(seed(13)), 4 * SLOT_BYTES);
    let slot = |nth: usize| &whole[nth * SLOT_BYTES..][..SLOT_BYTES];
    let anew = AtomicUsize::new(0);
    without_words(
        |device| {
            device.write(0, &whole).unwrap();
            device.write(SLOT_BYTES as u64, slot(0)).unwrap();
        },
        |device| {
            assert_eq!(device.discard(0, 2 * SLOT_BYTES as u64), Ok(()));
            let found = slots_of(device, 4);
            assert!([0, 1].iter().all(|&nth| found[nth].iter().all(|&byte| byte == 0)));
            assert!([2, 3].iter().all(|&nth| found[nth] == slot(nth)));
            anew.fetch_add(usize::from(device.order_stats()[1].rewrites > 0), Relaxed);
        },
    );
    assert!(anew.into_inner() > 0, "there was an entry for each");
}

/// The block is rewritten with the new slot, in the place of the old object. A rewrite in the place
/// of the old object needs no entry (I6).
#[test]
fn an_overwrite_of_a_slot_in_its_block_needs_no_entry() {
    let (whole, anew) = (half(&mut Rng::with_seed(seed(15)), 4 * SLOT_BYTES), AtomicUsize::new(0));
    // If a smaller part were overwritten, the new data could compress to a few bytes more than the
    // old data.
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

/// A block can't be written as one object if memory for the object or for the entry of a
/// same-filled slot is refused. A failed write has written exactly the slots before the slot in its
/// error.
#[test]
fn a_refused_write_of_a_block_names_the_first_slot_that_is_not_written() {
    let mut rng = Rng::with_seed(seed(14));
    let old = half(&mut rng, 4 * SLOT_BYTES);
    for alone in [0, 2] {
        let before = |device: &Device| {
            device.write(0, &old).unwrap();
            // Slots that are written alone have entries already.
            for nth in 0..alone {
                let at = nth * SLOT_BYTES;
                device.write(at as u64, &old[at..][..SLOT_BYTES]).unwrap();
            }
        };
        let patterned = |mut new: Vec<u8>| {
            new[2 * SLOT_BYTES..3 * SLOT_BYTES].fill(0x55);
            new
        };
        // Each new object fits in the place of its block's old object, so no further memory is
        // needed.
        let mut new = half(&mut rng, 4 * SLOT_BYTES);
        new.chunks_mut(64).for_each(|chunk| chunk[16..].fill(7));
        let new = patterned(new);
        without_words(before, |device| {
            assert_eq!(device.write(0, &new), Ok(()));
            assert!(slots_of(device, 4).concat() == new);
        });
        // No new object fits in the place of its block's old object.
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
