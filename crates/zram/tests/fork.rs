//! Tests a device in the child of a fork, while other threads of the parent use the device (I8).
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use testkit::child::in_child;
use testkit::load::Stop;
use testkit::seed;
use zram::{Config, Device, Error, Fork, SLOT_BYTES};

const SLOTS: u64 = 400;

/// Returns a block whose bytes are all calculated from the number in its first eight bytes.
fn block(stamp: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(testkit::seed_of(stamp));
    let mut block = stamp.to_ne_bytes().to_vec();
    while block.len() < SLOT_BYTES {
        let len = (block.len() + rng.usize(1..=100)).min(SLOT_BYTES);
        block.resize(len, rng.u8(..));
    }
    block
}

/// Reads every slot, and asserts that each slot contains one complete block or zeros.
fn verify(device: &Device) {
    let mut found = vec![0; SLOT_BYTES];
    for slot in 0..SLOTS {
        device.read(slot * SLOT_BYTES as u64, &mut found).unwrap();
        let seed = u64::from_ne_bytes(*found.first_chunk().unwrap());
        let expected = if seed == 0 { vec![0; SLOT_BYTES] } else { block(seed) };
        assert!(found == expected, "slot {slot} is torn");
    }
}

fn disturb(device: &Device, seed: u64, stop: &AtomicBool) {
    let mut rng = Rng::with_seed(seed);
    while !stop.load(Relaxed) {
        let at = rng.u64(..SLOTS) * SLOT_BYTES as u64;
        match rng.u32(..20) {
            0 => drop(device.compact()),
            1..6 => device.discard(at, SLOT_BYTES as u64).unwrap(),
            _ => device.write(at, &block(rng.u64(1..))).unwrap(),
        }
    }
}

#[test]
fn a_child_has_a_whole_copy() {
    let device = Device::new(Config::new(SLOTS * SLOT_BYTES as u64).unwrap()).unwrap();
    let seed = seed(158);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for thread in 0..4 {
            let (device, stop) = (&device, &stop);
            scope.spawn(move || disturb(device, seed + thread, stop));
        }
        for _ in 0..60 {
            in_child(|| {
                device.check();
                verify(&device);
                device.write(0, &block(7)).unwrap();
                device.discard(0, SLOTS * SLOT_BYTES as u64).unwrap();
                device.compact();
                verify(&device);
            });
        }
    });
    verify(&device);
    device.check();
}

/// The child does not inherit the pool's pages. Calls that need the pool's pages fail in the child,
/// but the child can drop the device.
#[test]
fn a_child_is_left_without_pages() {
    let seed = seed(159);
    for (track_access, order) in [(false, 0), (true, 0), (true, 2)] {
        let (fork, bytes) = (Fork::Leave, SLOT_BYTES << order);
        let config = Config { fork, track_access, block: bytes, ..Config::new(64 << 20).unwrap() };
        let mut device = Some(Device::new(config).unwrap());
        let parents = || device.as_ref().unwrap();
        for slot in 0..SLOTS {
            parents().write(slot * SLOT_BYTES as u64, &block(slot + 1)).unwrap();
        }
        // The test writes a whole block, and discards one of its slots.
        parents().write(0, &[1, 2, 3, 4].map(block).concat()).unwrap();
        parents().discard(SLOT_BYTES as u64, SLOT_BYTES as u64).unwrap();
        let stat = parents().mm_stat();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let (device, stop) = (parents(), &stop);
            scope.spawn(move || disturb(device, seed, stop));
            for _ in 0..20 {
                in_child(|| {
                    let mut buf = [0; 10];
                    for refused in [
                        device.write(0, &buf),
                        device.read(0, &mut buf),
                        device.discard(0, 4096),
                        device.flush(),
                        device.mark_idle(),
                    ] {
                        assert_eq!(
                            (refused.clone(), refused.unwrap_err().errno()),
                            (Err(Error::LeftBehind), 19)
                        );
                    }
                    // Calls that need no page of the pool return the device's state at the time of
                    // the fork.
                    assert_eq!((device.compact(), device.shrink(1)), (0, 0));
                    assert!(device.mem_total() > device.mm_stat().mem_used_total);
                    assert!(device.mm_stat().mem_used_total >= stat.mem_used_total / 2);
                    assert!(device.block_state().count() > 0);
                    assert!(!device.classes().to_string().is_empty());
                    device.check();
                });
            }
        });
        // The child may have mapped other memory at the addresses of the pool's pages. A drop of
        // the device must not unmap that memory.
        let dropped = device.take();
        in_child(move || {
            let others: Vec<Vec<u8>> = (0..64).map(|nth| vec![nth; 4 << 20]).collect();
            drop(dropped);
            assert!(
                others.iter().zip(0..).all(|(other, nth)| other.iter().all(|&byte| byte == nth))
            );
            let own = Device::new(Config::new(1 << 20).unwrap()).unwrap();
            own.write(0, &block(7)).unwrap();
            own.check();
        });
    }
}

/// Returns the number of mappings of this process that have the flag `flag`.
fn mappings_with(flag: &str) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let flags = maps.lines().filter(|line| line.starts_with("VmFlags:"));
    flags.filter(|flags| flags.split_whitespace().any(|other| other == flag)).count()
}

/// The test runs in a child process, because no other test maps memory there.
#[test]
fn segments_are_in_dumps_and_children_as_asked() {
    in_child(|| {
        for (dump, fork) in [(false, Fork::Copy), (true, Fork::Leave), (true, Fork::Copy)] {
            let config = Config { dump, fork, ..Config::new(1 << 20).unwrap() };
            let before = (mappings_with("dd"), mappings_with("wf"));
            let device = Device::new(config).unwrap();
            device.write(0, &block(1)).unwrap();
            let added = (mappings_with("dd") - before.0, mappings_with("wf") - before.1);
            assert_eq!(added, (usize::from(!dump), usize::from(fork == Fork::Leave)));
        }
    });
}
