use super::*;
use crate::hook::with_hook;
use crate::{Compaction, Config, Damage, Device, SLOT_BYTES, SaveOptions, SaveTo};
use std::sync::Arc;

const SLOTS: u64 = 1 << 20;
/// The first slots of four blocks that lie in different leaves and in three spans of the table.
const FIRST: [u64; 4] = [0, 4096, 80_000, 900_000];

fn device() -> Arc<Device> {
    let disksize = SLOTS * SLOT_BYTES as u64;
    let compaction = Compaction::Manual;
    let config = Config { block: 4 * SLOT_BYTES, compaction, ..Config::new(disksize).unwrap() };
    Arc::new(Device::new(config).unwrap())
}

fn bytes() -> Vec<u8> {
    b"words that compress, and a few more; ".repeat(500)[..4 * SLOT_BYTES].to_vec()
}

fn by_slots(device: &Device) {
    for first in FIRST {
        for (nth, slot) in bytes().chunks(SLOT_BYTES).enumerate() {
            device.write((first + nth as u64) * SLOT_BYTES as u64, slot).unwrap();
        }
    }
}

/// Writes all four blocks whole, and removes the entries of their slots.
fn by_blocks(device: &Device) {
    FIRST.iter().for_each(|first| device.write(first * SLOT_BYTES as u64, &bytes()).unwrap());
    device.compact();
    device.check();
}

fn stored(device: &Device) -> Vec<u64> {
    device.block_state().map(|state| state.index).collect()
}

fn expected() -> Vec<u64> {
    FIRST.iter().flat_map(|first| *first..first + 4).collect()
}

/// A slot that holds data is never reported as empty. In this test, slots become a block after the
/// look-up of the block's entry, and before the look-up of the slots' entries.
#[test]
fn slots_that_become_a_block_meanwhile_are_no_hole() {
    for place in ["states", "walk"] {
        let device = device();
        by_slots(&device);
        assert_eq!(stored(&device), expected());
        let its = device.clone();
        let found = with_hook(place, move || by_blocks(&its), || stored(&device));
        assert_eq!(found, expected(), "{place}");
        assert_eq!(stored(&device), expected());
    }
}

#[test]
fn slots_that_become_a_block_meanwhile_are_saved() {
    let device = device();
    by_slots(&device);
    let (its, mut file) = (device.clone(), Vec::new());
    let saved = with_hook(
        "walk",
        move || by_blocks(&its),
        || device.save(SaveTo::Writer(&mut file), &SaveOptions::default()).unwrap(),
    );
    assert_eq!(saved.slots, 16);
    let device = Device::new(Config::new(SLOTS * SLOT_BYTES as u64).unwrap()).unwrap();
    device.restore_from(&mut &file[..], Damage::Refuse).unwrap();
    for first in FIRST {
        let mut back = vec![0; 4 * SLOT_BYTES];
        device.read(first * SLOT_BYTES as u64, &mut back).unwrap();
        assert!(back == bytes(), "block of slot {first}");
    }
}

/// One thread stores slots alternately as blocks and as single slots. Another thread reads the
/// states of these slots.
#[test]
fn nothing_stored_is_a_hole_beside_a_writer_of_blocks() {
    let device = device();
    by_slots(&device);
    let rounds = if std::env::var_os("UZRAM_LONG").is_some() { 20_000 } else { 200 };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..rounds {
                by_blocks(&device);
                by_slots(&device);
            }
        });
        while !writer.is_finished() {
            assert_eq!(stored(&device), expected());
        }
    });
}
