//! A device in a child after fork, while other threads of the parent use it (I8).
#![allow(clippy::unwrap_used)]

mod support;

use fastrand::Rng;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use support::load::Stop;
use support::load::child::in_child;
use zram::{BLOCK, Config, Device};

const SLOTS: u64 = 400;

/// A block in which every byte follows from its first eight.
fn block(seed: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed);
    let mut block = seed.to_ne_bytes().to_vec();
    while block.len() < BLOCK {
        let len = (block.len() + rng.usize(1..=100)).min(BLOCK);
        block.resize(len, rng.u8(..));
    }
    block
}

/// Reads every slot: each holds one whole block, or nothing.
fn verify(device: &Device) {
    let mut found = vec![0; BLOCK];
    for slot in 0..SLOTS {
        device.read(slot * BLOCK as u64, &mut found).unwrap();
        let seed = u64::from_ne_bytes(*found.first_chunk().unwrap());
        let expected = if seed == 0 { vec![0; BLOCK] } else { block(seed) };
        assert!(found == expected, "slot {slot} is torn");
    }
}

fn disturb(device: &Device, seed: u64, stop: &AtomicBool) {
    let mut rng = Rng::with_seed(seed);
    while !stop.load(Relaxed) {
        let at = rng.u64(..SLOTS) * BLOCK as u64;
        match rng.u32(..20) {
            0 => drop(device.compact()),
            1..6 => device.discard(at, BLOCK as u64).unwrap(),
            _ => device.write(at, &block(rng.u64(1..))).unwrap(),
        }
    }
}

#[test]
fn a_child_has_a_whole_copy() {
    let device = Device::new(Config::new(SLOTS * BLOCK as u64).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for seed in 0..4 {
            let (device, stop) = (&device, &stop);
            scope.spawn(move || disturb(device, seed, stop));
        }
        for _ in 0..60 {
            in_child(|| {
                device.check();
                verify(&device);
                device.write(0, &block(7)).unwrap();
                device.discard(0, SLOTS * BLOCK as u64).unwrap();
                device.compact();
                verify(&device);
            });
        }
    });
    verify(&device);
    device.check();
}
