//! Tests the idle marks and access times of slots.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use testkit::idle::{boot_seconds, mark_idle_up_to, next_second};
use testkit::seed;
use zram::{Config, Device, Error, SLOT_BYTES, SlotState};

const SLOTS: u64 = 600;

fn device(track_access: bool) -> Device {
    let config = Config { track_access, ..Config::new(SLOTS * SLOT_BYTES as u64).unwrap() };
    Device::new(config).unwrap()
}

/// Returns a block that compresses and is different for each slot.
fn block(seed: u64, slot: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed ^ slot);
    let mut block = vec![0; SLOT_BYTES];
    rng.fill(&mut block[..1000]);
    block
}

fn write_all(device: &Device, seed: u64) {
    for slot in 0..SLOTS {
        device.write(slot * SLOT_BYTES as u64, &block(seed, slot)).unwrap();
    }
}

fn states(device: &Device) -> Vec<SlotState> {
    device.block_state().collect()
}

fn idle(device: &Device) -> Vec<u64> {
    states(device).iter().filter(|state| state.is_idle).map(|state| state.index).collect()
}

#[test]
fn accesses_clear_the_mark_of_their_slots_alone() {
    let seed = seed(154);
    for track_access in [false, true] {
        let device = device(track_access);
        let at = |slot: u64| slot * SLOT_BYTES as u64;
        let (mut one, mut whole) = ([0], vec![0; SLOT_BYTES]);
        write_all(&device, seed);
        device.write(at(2), &[7; SLOT_BYTES]).unwrap();
        device.write(at(3), &0x1122_3344_5566_7788u64.to_ne_bytes().repeat(512)).unwrap();
        device.discard(at(4), SLOT_BYTES as u64).unwrap();
        assert!(idle(&device).is_empty());
        device.mark_idle().unwrap();
        // All slots are expected except the slots without an object, and the slot whose object is a
        // pattern.
        let mut expected: Vec<u64> = (0..SLOTS).filter(|slot| !(2..5).contains(slot)).collect();
        assert_eq!(idle(&device), expected);
        assert_eq!(states(&device).len() as u64, SLOTS - 1);
        type Access<'a> = &'a dyn Fn(&mut [u8]);
        let accesses: [(Access<'_>, u64); 6] = [
            (&|buf| device.read(at(10), buf).unwrap(), 10),
            (&|buf| device.read(at(20) + 100, &mut buf[..1]).unwrap(), 20),
            (&|buf| device.write(at(30), buf).unwrap(), 30),
            (&|_| device.write(at(40) + 5, &[1]).unwrap(), 40),
            (&|_| device.discard(at(50) + 5, 10).unwrap(), 50),
            (&|_| device.discard(at(599), SLOT_BYTES as u64).unwrap(), 599),
        ];
        for (access, slot) in accesses {
            access(&mut whole);
            expected.retain(|other| *other != slot);
            assert_eq!(idle(&device), expected, "slot {slot}");
        }
        device.read(0, &mut one).unwrap();
        device.compact();
        device.check();
        assert_eq!(idle(&device), &expected[1..]);
        device.mark_idle().unwrap();
        assert!(idle(&device).contains(&10) && idle(&device).contains(&0));
    }
}

#[test]
fn an_age_marks_what_is_older_and_unmarks_what_is_not() {
    let device = device(true);
    let (begun, seed) = (boot_seconds(), seed(155));
    write_all(&device, seed);
    let written = states(&device);
    assert!(written.iter().all(|state| {
        state.accessed_seconds.is_some_and(|seconds| (begun..=boot_seconds()).contains(&seconds))
    }));
    // The age exceeds the time since boot, so no slot is that old.
    for age in [u64::MAX, u64::from(u32::MAX), u64::from(boot_seconds()) + 10] {
        device.mark_idle_older(age).unwrap();
        assert!(idle(&device).is_empty(), "{age}");
    }
    device.mark_idle().unwrap();
    device.mark_idle_older(3600).unwrap();
    assert!(idle(&device).is_empty(), "younger slots lose the mark");
    let last = next_second();
    // Requests of three kinds access half of the slots, each slot once.
    let mut buf = vec![0; SLOT_BYTES];
    for slot in (0..SLOTS).step_by(2) {
        match slot % 3 {
            0 => device.read(slot * SLOT_BYTES as u64, &mut buf[..9]).unwrap(),
            1 => device.write(slot * SLOT_BYTES as u64, &block(seed, slot)).unwrap(),
            _ => device.write(slot * SLOT_BYTES as u64 + 9, &[3]).unwrap(),
        }
    }
    device.compact();
    mark_idle_up_to(&device, last);
    let odd: Vec<u64> = (0..SLOTS).filter(|slot| slot % 2 == 1).collect();
    assert_eq!(idle(&device), odd);
    let line = states(&device)[1].to_string();
    let (index, rest) = line.split_at(12);
    let seconds = states(&device)[1].accessed_seconds.unwrap();
    assert_eq!((index.trim(), rest), ("1", &*format!(" {seconds:12}.000000 ...i..")));
    device.discard(0, SLOTS * SLOT_BYTES as u64).unwrap();
    assert_eq!(states(&device), []);
    device.write(0, &[1, 2, 3]).unwrap();
    assert!(states(&device)[0].accessed_seconds >= Some(seconds + 2));
    device.check();
}

#[test]
fn without_times_an_age_is_refused() {
    let device = device(false);
    write_all(&device, seed(156));
    device.mark_idle().unwrap();
    let error = device.mark_idle_older(0).unwrap_err();
    assert_eq!((&error, error.errno()), (&Error::Untracked, 22));
    assert!(error.to_string().contains("track_access"), "{error}");
    assert_eq!(idle(&device).len() as u64, SLOTS);
    assert!(states(&device).iter().all(|state| state.accessed_seconds.is_none()));
}

/// A cache line contains five entries with their access times. So an access time takes 4 bytes, and
/// a fifth of the bytes that a cache line leaves unused.
#[test]
fn times_are_counted() {
    const SLOTS: u64 = 100_000;
    let total = |track_access| {
        let config = Config { track_access, ..Config::new(SLOTS * SLOT_BYTES as u64).unwrap() };
        let device = Device::new(config).unwrap();
        (0..SLOTS)
            .for_each(|slot| device.write(slot * SLOT_BYTES as u64, &[1; SLOT_BYTES]).unwrap());
        device.mem_total()
    };
    let per_slot = (total(true) - total(false)) as f64 / SLOTS as f64;
    assert!((4.8..5.5).contains(&per_slot), "{per_slot} bytes");
}
