//! Tests that a large device with few data takes little memory, and releases this memory when the
//! data are freed.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::collections::HashMap;
use testkit::seed;
use zram::{Compaction, Config, Device, SLOT_BYTES};

const TIB: u64 = 1 << 40;

fn block(seed: u64, slot: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed ^ slot);
    let mut block = vec![0; SLOT_BYTES];
    rng.fill(&mut block[..700]);
    block
}

#[test]
fn slots_at_random_of_sixteen_tebibytes() {
    let seed = seed(153);
    for track_access in [false, true] {
        let disksize = 16 * TIB - SLOT_BYTES as u64;
        // Background compaction is off, because it might be under way when the memory is measured.
        let compaction = Compaction::Manual;
        let config = Config { track_access, compaction, ..Config::new(disksize).unwrap() };
        let device = Device::new(config).unwrap();
        let empty = device.mem_total();
        assert!(empty < 2 << 20, "an empty device takes {empty} bytes");
        let mut rng = Rng::with_seed(seed);
        let slots: Vec<u64> =
            (0..20_000).map(|_| rng.u64(..disksize / SLOT_BYTES as u64)).collect();
        for &slot in &slots {
            device.write(slot * SLOT_BYTES as u64, &block(seed, slot)).unwrap();
        }
        let stat = device.mm_stat();
        let beside = device.mem_total() - empty - stat.mem_used_total;
        // The directory takes 8 bytes for each 2 MiB of the device. A slot that is far from other
        // written slots needs a node of its own.
        let directory = disksize / (512 * SLOT_BYTES as u64) * 8;
        let nodes = slots.len() as u64 * if track_access { 160 } else { 128 };
        assert!(beside < directory + nodes + (2 << 20), "{beside} bytes beside {stat:?}");
        let mut back = vec![0; SLOT_BYTES];
        let held: HashMap<u64, Vec<u8>> =
            slots.iter().map(|&slot| (slot, block(seed, slot))).collect();
        for state in device.block_state() {
            device.read(state.index * SLOT_BYTES as u64, &mut back).unwrap();
            assert!(held[&state.index] == back, "slot {}", state.index);
        }
        assert_eq!(device.block_state().count(), held.len());
        device.check();
        device.discard(0, disksize).unwrap();
        device.compact();
        device.check();
        assert!(device.mm_stat().mem_used_total < 1 << 20, "{:?}", device.mm_stat());
        let left = device.mem_total() - empty;
        assert!(left < directory + (1 << 20), "{left} bytes are left");
    }
}
