//! Tests that devices can be created and reset while requests and calls of attributes are under
//! way. A failed creation leaves no device and no memory behind.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use page::RefuseNth;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use testkit::child::in_child;
use testkit::{is_long, seed};
use zram::{Access, Config, Device, Error, SLOT_BYTES, Zram, attributes};

const SLOTS: u64 = 64;

fn settings(zram: &Zram, supply: Arc<RefuseNth>) {
    zram.configure("supply", |settings| {
        settings.supply = Some(supply);
        settings.streams = Some(2);
        Ok(())
    })
    .unwrap();
}

/// The creation of a device fails at each of its requests for memory. After each failure, the
/// device can be created, used and reset.
#[test]
fn a_failed_set_up_leaves_nothing() {
    for track_access in ["0", "1"] {
        let zram = Zram::new();
        let mut refused = 0;
        for nth in 1.. {
            let supply = Arc::new(RefuseNth::new(nth, false));
            settings(&zram, supply.clone());
            zram.store("track_access", track_access).unwrap();
            let Err(error) = zram.set_disksize(1 << 20) else { break };
            refused += 1;
            assert_eq!(error.errno(), 12, "{error}");
            assert_eq!(zram.show("initstate").unwrap(), "0\n");
            assert_eq!((zram.settings().disksize, zram.open().unwrap_err()), (0, Error::NoDevice));
            // After a refusal of memory, the same creation succeeds.
            zram.set_disksize(1 << 20).unwrap();
            let device = zram.open().unwrap();
            device.write(5, b"some bytes").unwrap();
            device.check();
            drop(device);
            zram.reset().unwrap();
            assert!(zram.settings().supply.is_none());
        }
        assert!(refused > 3, "{refused} requests only");
    }
}

#[test]
fn a_limit_below_what_an_empty_device_takes_is_told() {
    let zram = Zram::new();
    zram.store("total_limit", "4K").unwrap();
    let error = zram.store("disksize", "1M").unwrap_err();
    let Error::TotalLimit { limit: 4096, needed } = error else { panic!("{error}") };
    assert_eq!(zram.show("initstate").unwrap(), "0\n");
    zram.set_total_limit(Some(needed));
    zram.store("disksize", "1M").unwrap();
    let device = zram.open().unwrap();
    let full = device.write(0, &[1, 2, 3]).unwrap_err();
    let limit = Some(needed);
    assert!(
        matches!(full, Error::OutOfMemory { total_limit, .. } if total_limit == limit),
        "{full}"
    );
    assert!(full.to_string().contains("total_limit"), "{full}");
    // The limit can be raised at any time.
    zram.set_total_limit(Some(needed + (1 << 20)));
    device.write(0, &[1, 2, 3]).unwrap();
}

#[test]
fn open_devices_are_not_reset() {
    let zram = Zram::new();
    zram.reset().unwrap();
    zram.store("disksize", "1M").unwrap();
    let (first, second) = (zram.open().unwrap(), zram.open().unwrap());
    assert_eq!(zram.reset(), Err(Error::Open { opens: 2 }));
    drop(first);
    assert_eq!(zram.reset(), Err(Error::Open { opens: 1 }));
    second.write(0, b"kept").unwrap();
    // An open device can be used after the `Zram` is dropped.
    drop(zram);
    let mut kept = [0; 4];
    second.read(0, &mut kept).unwrap();
    assert_eq!(&kept, b"kept");
    second.flush().unwrap();
}

/// Returns the content of a slot, which contains the numbers of the slot and the version.
fn block(slot: u64, version: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(testkit::seed_of(slot << 32 | version));
    let mut block = vec![rng.u8(..); SLOT_BYTES];
    let noise = rng.usize(16..SLOT_BYTES);
    rng.fill(&mut block[..noise]);
    block[..16].copy_from_slice(&[slot.to_ne_bytes(), version.to_ne_bytes()].concat());
    block
}

fn expect_whole(found: &[u8], slot: u64) {
    let word = |nth: usize| u64::from_ne_bytes(found[nth * 8..][..8].try_into().unwrap());
    if word(1) == 0 {
        assert!(found.iter().all(|&byte| byte == 0), "slot {slot} is torn");
    } else {
        assert!(word(0) == slot && found == block(slot, word(1)), "slot {slot} is torn");
    }
}

/// Opens and uses the device if another thread has created it.
fn use_it(zram: &Zram, rng: &mut Rng, versions: &AtomicU64) {
    let Ok(device) = zram.open() else { return };
    for _ in 0..rng.u32(..60) {
        let slot = rng.u64(..SLOTS);
        let at = slot * SLOT_BYTES as u64;
        match rng.u32(..8) {
            0..3 => device.write(at, &block(slot, versions.fetch_add(1, Relaxed))).unwrap(),
            3 => device.discard(at, 2 * SLOT_BYTES as u64).unwrap_or_default(),
            4 => device.mark_idle().unwrap(),
            _ => {
                let mut found = vec![0; SLOT_BYTES];
                device.read(at, &mut found).unwrap();
                expect_whole(&found, slot);
            }
        }
    }
}

fn look_at_all(zram: &Zram) {
    for attribute in attributes().iter().filter(|attribute| attribute.access() != Access::Write) {
        match zram.show(attribute.name) {
            Ok(_) | Err(Error::Uninitialised { .. }) => {}
            Err(error) => panic!("{}: {error}", attribute.name),
        }
    }
}

#[test]
fn stress_reset_open_and_drop_under_load() {
    let zram = Zram::new();
    let (versions, resets, busy) = (AtomicU64::new(1), AtomicUsize::new(0), AtomicUsize::new(0));
    let seed = seed(157);
    let rounds = if is_long() { 100_000 } else { 4_000 };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (zram, versions, resets, busy) = (&zram, &versions, &resets, &busy);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed + thread);
                for _ in 0..rounds {
                    match rng.u32(..10) {
                        0 => match zram.store("disksize", "256K") {
                            Ok(()) | Err(Error::Initialised { .. }) => {}
                            Err(error) => panic!("{error}"),
                        },
                        1 => {
                            // In about half of the cases, this thread also has the device open.
                            let open = if rng.bool() { zram.open().ok() } else { None };
                            match zram.reset() {
                                Ok(()) => {
                                    assert!(open.is_none());
                                    resets.fetch_add(1, Relaxed);
                                }
                                Err(Error::Open { .. }) => drop(busy.fetch_add(1, Relaxed)),
                                Err(error) => panic!("{error}"),
                            }
                        }
                        2 => look_at_all(zram),
                        3 => drop(zram.store("compact", "1")),
                        4 => drop(zram.store("idle", "all")),
                        5 => drop(zram.store("track_access", &rng.u32(..2).to_string())),
                        _ => use_it(zram, &mut rng, versions),
                    }
                }
            });
        }
    });
    let (resets, busy) = (resets.into_inner(), busy.into_inner());
    assert!(resets > 0 && busy > 0, "{resets} resets, {busy} refused");
    zram.reset().unwrap();
}

/// If another thread of the parent is creating the device during a fork, the child has no device,
/// and can create it.
#[test]
fn a_child_has_a_life_of_its_own() {
    let zram = Zram::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = testkit::load::Stop(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let _ = zram.set_disksize(1 << 20);
                    let _ = zram.reset();
                }
            });
        }
        for _ in 0..40 {
            in_child(|| {
                let _ = zram.set_disksize(1 << 20);
                let device = zram.open().unwrap();
                device.write(0, b"the child's").unwrap();
                assert!(zram.reset().is_err());
                drop(device);
                zram.reset().unwrap();
            });
        }
    });
}

#[test]
fn many_devices_in_one_process() {
    let devices: Vec<_> = (0..100u64)
        .map(|nth| {
            let device = Device::new(Config { streams: Some(1), ..Config::new(1 << 40).unwrap() });
            let device = device.unwrap();
            device.write(nth << 32, &block(nth, 7)).unwrap();
            device
        })
        .collect();
    for (nth, device) in devices.iter().enumerate() {
        let mut found = vec![0; SLOT_BYTES];
        device.read((nth as u64) << 32, &mut found).unwrap();
        expect_whole(&found, nth as u64);
        device.check();
    }
}
