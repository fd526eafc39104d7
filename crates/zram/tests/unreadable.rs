//! Tests saves of devices with unreadable data: all other data are saved, and the lost slots are
//! listed. This file also tests saves and jobs with a store that hangs.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use testkit::contents::data;
use testkit::faulty::Faulty;
use testkit::shadow::Shadow;
use testkit::wait::{patience, within};
use testkit::{is_long, seed};
use zram::{
    Config, Damage, Device, Error, JobKind, SLOT_BYTES, SaveOptions, SaveTo, Saved, Selection,
    Unreadable,
};

const BYTES: usize = 2 << 20;
/// The time limit of reads. With the default time limit, the tests would take minutes.
const WAIT: Duration = Duration::from_secs(1);
const IMPATIENT: SaveOptions = SaveOptions { unreadable: Unreadable::Skip, patience: Some(WAIT) };

fn config(backing: &Arc<Faulty>, block: usize) -> Config {
    Config { block, backing: Some(backing.clone()), ..Config::new(BYTES as u64).unwrap() }
}

/// Returns a device whose data are written back as far as possible. Some slots were written again
/// after the write-back.
fn written_back(backing: &Arc<Faulty>, block: usize, rng: &mut Rng) -> Shadow<Device> {
    let mut shadow = Shadow::of(Device::new(config(backing, block)).unwrap(), 0, BYTES);
    for at in (0..BYTES).step_by(16 * SLOT_BYTES) {
        let bytes: Vec<u8> = (0..16).flat_map(|_| data(rng, SLOT_BYTES)).collect();
        shadow.write(at, &bytes).unwrap();
    }
    shadow.device.write_back(&Selection::default()).unwrap();
    for _ in 0..60 {
        let at = rng.usize(..BYTES / SLOT_BYTES) * SLOT_BYTES;
        match rng.bool() {
            true => shadow.write(at, &data(rng, SLOT_BYTES)).unwrap(),
            false => shadow.discard(at, SLOT_BYTES).unwrap(),
        }
    }
    shadow.device.write_back(&Selection { slots: vec![0..=100], ..Selection::default() }).unwrap();
    shadow
}

/// Returns the slots that can't be read.
fn unreadable(device: &Device) -> BTreeSet<u64> {
    let slots = device.disksize() / SLOT_BYTES as u64;
    (0..slots)
        .filter(|slot| device.read(slot * SLOT_BYTES as u64, &mut [0; SLOT_BYTES]).is_err())
        .collect()
}

fn slots_of(saved: &Saved) -> BTreeSet<u64> {
    let slots = |range: &std::ops::Range<u64>| {
        range.start / SLOT_BYTES as u64..range.end / SLOT_BYTES as u64
    };
    saved.lost.iter().flat_map(slots).collect()
}

/// Asserts that a file contains the data of all slots except `lost`, and lists the slots `lost`.
fn expect_all_but(file: &[u8], shadow: &Shadow<Device>, lost: &BTreeSet<u64>) {
    for block in [SLOT_BYTES, 4 * SLOT_BYTES] {
        let config = Config { block, ..Config::new(BYTES as u64).unwrap() };
        let device = Device::new(config).unwrap();
        let strict = device.restore_from(&mut &file[..], Damage::Refuse);
        if let Some(first) = lost.first() {
            let refused = strict.unwrap_err();
            let names = format!("slot {first} could not be read when this was saved");
            assert!(refused.to_string().contains(&names), "{refused}");
        } else {
            strict.unwrap();
            device.discard(0, BYTES as u64).unwrap();
        }
        let done = device.restore_from(&mut &file[..], Damage::Salvage).unwrap();
        let listed = Saved { lost: done.lost, ..Saved::default() };
        assert_eq!(slots_of(&listed), *lost);
        for slot in 0..BYTES / SLOT_BYTES {
            let mut back = [1; SLOT_BYTES];
            device.read((slot * SLOT_BYTES) as u64, &mut back).unwrap();
            let expected = &shadow.bytes[slot * SLOT_BYTES..][..SLOT_BYTES];
            let is_lost = lost.contains(&(slot as u64));
            assert!(back == expected || is_lost && back == [0; SLOT_BYTES], "slot {slot}");
        }
        device.check();
    }
}

#[test]
fn one_page_that_can_not_be_read_costs_no_other() {
    let mut rng = Rng::with_seed(seed(61));
    for block in [SLOT_BYTES, 4 * SLOT_BYTES, 16 * SLOT_BYTES] {
        let backing = Arc::new(Faulty::new(2 * BYTES));
        let shadow = written_back(&backing, block, &mut rng);
        for bad in [0, 1, 3, 60] {
            let starts = (0..bad).map(|_| rng.u64(..BYTES as u64 / 2));
            *backing.bad.lock().unwrap() = starts.map(|start| start..start + 100).collect();
            let mut file = Vec::new();
            let saved =
                shadow.device.save(SaveTo::Writer(&mut file), &SaveOptions::default()).unwrap();
            let (lost, unreadable) = (slots_of(&saved), unreadable(&shadow.device));
            assert_eq!(saved.lost_slots, lost.len() as u64);
            // A slot with its own object is saved even if its block can't be read. A read of the
            // slot also reads its block.
            assert!(lost.is_subset(&unreadable) && (block > SLOT_BYTES || lost == unreadable));
            let stored = shadow.device.mm_stat().orig_data_size / SLOT_BYTES as u64;
            assert_eq!(saved.slots + saved.lost_slots, stored);
            expect_all_but(&file, &shadow, &lost);
            let strict = SaveOptions { unreadable: Unreadable::Refuse, ..SaveOptions::default() };
            let refused = shadow.device.save(SaveTo::Writer(&mut Vec::new()), &strict);
            assert_eq!(refused.is_err(), !lost.is_empty(), "{refused:?}");
        }
        shadow.device.check();
    }
}

#[test]
fn each_read_of_a_save_may_fail() {
    let mut rng = Rng::with_seed(seed(62));
    for nth in 1..if is_long() { 400 } else { 60 } {
        let block = [SLOT_BYTES, 4 * SLOT_BYTES][nth as usize % 2];
        let backing = Arc::new(Faulty::new(2 * BYTES));
        let shadow = written_back(&backing, block, &mut rng);
        backing.fail_nth(nth);
        let mut file = Vec::new();
        let saved = shadow.device.save(SaveTo::Writer(&mut file), &SaveOptions::default()).unwrap();
        // If blocks are large, the save can need fewer than `nth` reads.
        let has_failed = backing.operations() >= nth;
        assert!(has_failed || nth >= 60, "only {} reads", backing.operations());
        let lost = if has_failed { 1..=16 } else { 0..=0 };
        assert!(lost.contains(&saved.lost_slots), "{nth}: {saved:?}");
        backing.fail_every(0);
        if nth % 10 == 0 {
            expect_all_but(&file, &shadow, &slots_of(&saved));
        }
    }
}

#[test]
fn a_whole_file_stays_beside_one_that_lacks_something() {
    let dir = std::env::temp_dir().join(format!("uzram-unreadable-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (path, before) = (dir.join("saved"), dir.join("saved.before"));
    let backing = Arc::new(Faulty::new(2 * BYTES));
    let shadow = written_back(&backing, SLOT_BYTES, &mut Rng::with_seed(seed(63)));
    let restored = |path: &std::path::Path| {
        let device = Device::new(Config::new(BYTES as u64).unwrap()).unwrap();
        device.restore(path, Damage::Refuse).is_ok()
    };
    let save = || shadow.device.save(SaveTo::File(&path), &SaveOptions::default()).unwrap();
    assert!(save().is_whole() && save().is_whole() && restored(&path) && !before.exists());
    backing.bad.lock().unwrap().push(0..BYTES as u64);
    for _ in 0..3 {
        let saved = save();
        assert!(!saved.is_whole() && !restored(&path) && restored(&before));
        backing.bad.lock().unwrap()[0].end /= 2;
    }
    assert_eq!(save().before, None, "that one lacked something, too");
    backing.bad.lock().unwrap().clear();
    assert!(save().is_whole() && restored(&path));
    backing.bad.lock().unwrap().push(0..BYTES as u64);
    assert_eq!(save().before, Some(before));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_stuck_store_is_not_waited_for_for_ever() {
    let mut rng = Rng::with_seed(seed(64));
    for block in [SLOT_BYTES, 4 * SLOT_BYTES] {
        let backing = Arc::new(Faulty::new(2 * BYTES));
        let shadow = written_back(&backing, block, &mut rng);
        let states = shadow.device.block_state();
        let away: BTreeSet<_> = states.filter(|of| of.is_written_back).map(|of| of.index).collect();
        assert!(away.len() > 100, "{}", away.len());
        backing.stick(true);
        let mut file = Vec::new();
        let save = || shadow.device.save(SaveTo::Writer(&mut file), &IMPATIENT).unwrap();
        let saved = within(WAIT * away.len() as u32 / 2, save);
        assert_eq!(slots_of(&saved), away);
        expect_all_but(&file, &shadow, &away);
        // A cancelled save does not wait for the store. The first stuck read is the read that the
        // earlier save abandoned.
        thread::scope(|scope| {
            let patient = SaveOptions { patience: Some(2 * patience()), ..IMPATIENT };
            let device = &shadow.device;
            let saving =
                scope.spawn(move || device.save(SaveTo::Writer(&mut Vec::new()), &patient));
            backing.wait_until_stuck(2);
            assert!(device.give_up_job(patience()));
            assert_eq!(saving.join().unwrap(), Err(Error::Cancelled));
        });
        backing.stick(false);
        let mut file = Vec::new();
        assert!(
            shadow
                .device
                .save(SaveTo::Writer(&mut file), &SaveOptions::default())
                .unwrap()
                .is_whole()
        );
        expect_all_but(&file, &shadow, &BTreeSet::new());
        shadow.device.check();
    }
}

#[test]
fn a_stuck_job_is_given_up_and_changes_nothing_later() {
    let backing = Arc::new(Faulty::new(2 * BYTES));
    let mut shadow = Shadow::of(Device::new(config(&backing, SLOT_BYTES)).unwrap(), 0, BYTES);
    let mut rng = Rng::with_seed(seed(65));
    // Most of the data are noise, which takes several writes.
    let mut bytes: Vec<u8> = (0..BYTES * 3 / 4).map(|_| rng.u8(..)).collect();
    while bytes.len() < BYTES {
        bytes.extend(data(&mut rng, SLOT_BYTES));
    }
    shadow.write(0, &bytes).unwrap();
    backing.stick(true);
    thread::scope(|scope| {
        let device = &shadow.device;
        let stuck = scope.spawn(|| device.write_back(&Selection::default()));
        // The job neither ends nor reacts to the cancellation until the write returns.
        backing.wait_until_stuck(1);
        assert!(!device.give_up_job(Duration::from_millis(100)), "it is stuck");
        assert_eq!(device.job(), None);
        let mut file = Vec::new();
        assert!(device.save(SaveTo::Writer(&mut file), &IMPATIENT).unwrap().is_whole());
        expect_all_but(&file, &shadow, &BTreeSet::new());
        backing.stick(false);
        let ended = stuck.join().unwrap();
        assert!(matches!(ended, Err(Error::Cancelled) | Ok(_)), "{ended:?}");
        assert_eq!(device.bd_stat().bd_count, 0, "nothing left memory");
    });
    shadow.device.check();
    assert!(shadow.device.write_back(&Selection::default()).unwrap().slots > 0);
    shadow.compare(0, BYTES);
}

/// Asserts that the job is under way until the file is at its final path.
#[test]
fn a_save_lasts_until_its_file_is_in_place() {
    let dir = std::env::temp_dir().join(format!("uzram-lasts-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("saved");
    let device = Device::new(Config::new(64 << 20).unwrap()).unwrap();
    let mut rng = Rng::with_seed(seed(66));
    let noise: Vec<u8> = (0..32 << 20).map(|_| rng.u8(..)).collect();
    device.write(0, &noise).unwrap();
    for _ in 0..4 {
        let _ = fs::remove_file(&path);
        thread::scope(|scope| {
            let saving =
                scope.spawn(|| device.save(SaveTo::File(&path), &SaveOptions::default()).unwrap());
            while device.job().is_none() && !saving.is_finished() {
                thread::yield_now();
            }
            while device.job().is_some_and(|job| job.kind == JobKind::Save) {
                thread::yield_now();
            }
            assert!(path.exists(), "the next job could begin before the file is in its place");
            saving.join().unwrap();
        });
    }
    fs::remove_dir_all(dir).unwrap();
}
