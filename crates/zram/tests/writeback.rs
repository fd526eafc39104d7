//! Tests write-back of cold data, later reads, the reuse of places in the store, and failures.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use testkit::child::in_child;
use testkit::contents::{Data, data};
use testkit::device::{DeviceModel, Event, Setup};
use testkit::faulty::Faulty;
use testkit::shadow::Shadow;
use testkit::{Choices, Model, Run, is_long, seed};
use zram::{
    Backing, BackingFile, Config, Damage, Device, Error, SLOT_BYTES, SaveOptions, SaveTo,
    Selection, Which,
};

const BYTES: usize = 2 << 20;

fn with(backing: Arc<dyn Backing>, block: usize) -> Config {
    Config { block, backing: Some(backing), ..Config::new(BYTES as u64).unwrap() }
}

fn shadow(backing: &Arc<Faulty>, block: usize) -> Shadow<Device> {
    Shadow::of(Device::new(with(backing.clone(), block)).unwrap(), 0, BYTES)
}

fn fill(shadow: &mut Shadow<Device>, rng: &mut Rng) {
    for at in (0..BYTES).step_by(16 * SLOT_BYTES) {
        let bytes: Vec<u8> = (0..16).flat_map(|_| data(rng, SLOT_BYTES)).collect();
        shadow.write(at, &bytes).unwrap();
    }
}

fn all() -> Selection {
    Selection::default()
}

#[test]
fn what_is_written_back_reads_as_before_and_is_freed() {
    for block in [SLOT_BYTES, 4 * SLOT_BYTES, 16 * SLOT_BYTES] {
        let mut rng = Rng::with_seed(seed(21));
        let backing = Arc::new(Faulty::new(2 * BYTES));
        let mut shadow = shadow(&backing, block);
        fill(&mut shadow, &mut rng);
        let before = shadow.device.mm_stat();
        let done = shadow.device.write_back(&all()).unwrap();
        let (after, stat) = (shadow.device.mm_stat(), shadow.device.bd_stat());
        assert_eq!(after.orig_data_size, before.orig_data_size);
        assert_eq!(done.bytes, before.compr_data_size - after.compr_data_size);
        assert!(after.compr_data_size <= 8 * after.same_pages, "{after:?}");
        assert_eq!((stat.bd_count, stat.bd_writes), (done.blocks, done.blocks));
        assert!(done.blocks * 4096 <= done.bytes * 105 / 100 + 4096, "{done:?} is not packed");
        shadow.device.check();
        shadow.compare(0, BYTES);
        assert!(shadow.device.bd_stat().bd_reads > 0);
        assert_eq!(shadow.device.bd_stat().bd_count, stat.bd_count, "a read leaves it there");
        shadow.device.compact();
        shadow.device.check();

        let mut file = Vec::new();
        shadow.device.save(SaveTo::Writer(&mut file), &SaveOptions::default()).unwrap();
        let other = Device::new(Config::new(BYTES as u64).unwrap()).unwrap();
        other.restore_from(&mut &file[..], Damage::Refuse).unwrap();
        Shadow { device: other, base: 0, bytes: shadow.bytes.clone() }.compare(0, BYTES);

        shadow.discard(0, BYTES).unwrap();
        shadow.device.check();
        assert_eq!(shadow.device.bd_stat().bd_count, 0);
    }
}

/// Data in the store are overwritten whole and in part, discarded and zeroed. The test uses a store
/// that is large enough, and a store that is too small.
#[test]
fn what_is_written_back_changes() {
    for (nth, block) in [SLOT_BYTES, 4 * SLOT_BYTES, 16 * SLOT_BYTES].into_iter().enumerate() {
        for store in [2 * BYTES, 20 * SLOT_BYTES] {
            let setup = Setup { block, store: Some(store), is_cold: true, ..Setup::new(BYTES) };
            let run = Run { seed: seed(27 + nth as u64), steps: 1500, first: 0, every: 30 };
            let report = testkit::run::<DeviceModel>(setup, run).unwrap();
            println!("{report:?}");
            let is_as_meant = match store > BYTES {
                true => report.written_back > 30 && report.store.bd_reads > 100,
                false => report.failed > 0,
            };
            assert!(is_as_meant, "{report:?}");
        }
    }
}

#[test]
fn nothing_is_lost_when_every_nth_operation_fails() {
    let seed = seed(22);
    for nth in 1..=100 {
        let block = [SLOT_BYTES, 4 * SLOT_BYTES][nth as usize % 2];
        let setup = Setup { block, store: Some(2 * BYTES), ..Setup::new(BYTES) };
        let mut model = DeviceModel::new(&setup).unwrap();
        let mut choices = Choices::seeded(seed ^ nth);
        for at in (0..BYTES).step_by(16 * SLOT_BYTES) {
            model.apply(&Event::Mixed { at, slots: 16, stamp: seed ^ nth << 32 ^ at as u64 });
        }
        model.apply(&Event::FailEvery(nth));
        for _ in 0..10 {
            model.apply(&Event::WriteBack { which: Which::All });
            for _ in 0..5 {
                let mut at = || choices.below(BYTES - 5000);
                let (written, read) = (at(), at());
                let data = Data::draw(&mut choices, seed ^ written as u64);
                model.apply(&Event::Write { at: written, len: 5000, data });
                model.apply(&Event::Read { at: read, len: 5000 });
            }
        }
        let stat = model.device().bd_stat();
        assert!(nth > 50 || stat.failed_reads + stat.failed_writes > 0, "{nth}: {stat:?}");
        // After the last failure, all operations of the store succeed.
        model.apply(&Event::Mend);
        model.check();
        model.apply(&Event::WriteBack { which: Which::All });
        model.check();
        model.finish();
    }
}

#[test]
fn a_full_store_ends_the_job_and_no_data() {
    let mut rng = Rng::with_seed(seed(23));
    let backing = Arc::new(Faulty::new(20 * SLOT_BYTES));
    let mut shadow = shadow(&backing, SLOT_BYTES);
    fill(&mut shadow, &mut rng);
    assert_eq!(shadow.device.write_back(&all()), Err(Error::BackingFull));
    assert_eq!(Error::BackingFull.errno(), 28);
    let stat = shadow.device.bd_stat();
    assert!((17..=20).contains(&stat.bd_count), "{stat:?}");
    shadow.compare(0, BYTES);
    shadow.discard(0, BYTES / 2).unwrap();
    shadow.device.check();
    assert_eq!(shadow.device.write_back(&all()), Err(Error::BackingFull));
    shadow.compare(0, BYTES);
    shadow.device.check();
    backing.errno.store(28, Relaxed);
    shadow.discard(0, BYTES).unwrap();
    fill(&mut shadow, &mut rng);
    backing.fail_every(1);
    assert_eq!(shadow.device.write_back(&all()).unwrap_err().errno(), 28);
    backing.fail_every(0);
    shadow.compare(0, BYTES);
}

#[test]
fn a_stuck_store_holds_up_no_one_else() {
    let mut rng = Rng::with_seed(seed(24));
    let backing = Arc::new(Faulty::new(2 * BYTES));
    let config = Config { streams: Some(1), ..with(backing.clone(), SLOT_BYTES) };
    let mut shadow = Shadow::of(Device::new(config).unwrap(), 0, BYTES);
    fill(&mut shadow, &mut rng);
    let half = Selection { slots: vec![0..=255], ..Selection::default() };
    shadow.device.write_back(&half).unwrap();
    backing.stick(true);
    thread::scope(|scope| {
        let device = &shadow.device;
        let away: Vec<_> =
            device.block_state().filter(|of| of.is_written_back && of.index >= 4).collect();
        let slots: Vec<_> = away.iter().map(|of| of.index).take(20).collect();
        let expected = &shadow.bytes;
        let readers = slots.len();
        for slot in slots {
            scope.spawn(move || {
                let mut back = [0; SLOT_BYTES];
                device.read(slot * SLOT_BYTES as u64, &mut back).unwrap();
                assert!(back == expected[slot as usize * SLOT_BYTES..][..SLOT_BYTES]);
                device.write(slot * SLOT_BYTES as u64 + 7, &[1]).unwrap();
            });
        }
        scope.spawn(|| device.write_back(&all()).unwrap());
        // The stuck operations are the reads of all readers, and one write of the job.
        backing.wait_until_stuck(readers + 1);
        for slot in 256..500 {
            let mut back = [0; SLOT_BYTES];
            device.read(slot * SLOT_BYTES as u64, &mut back).unwrap();
            assert!(back == expected[slot as usize * SLOT_BYTES..][..SLOT_BYTES]);
            device.write(slot * SLOT_BYTES as u64, &back).unwrap();
        }
        device.discard(0, 4 * SLOT_BYTES as u64).unwrap();
        assert_eq!(device.write_back(&all()), Err(Error::Busy));
        in_child(|| {
            let away = Error::StoreLeftBehind;
            let mut back = [0; SLOT_BYTES];
            let found = (4..256).map(|slot| device.read(slot * SLOT_BYTES as u64, &mut back));
            assert!(found.filter_map(Result::err).all(|error| error == away));
            device.discard(0, BYTES as u64).unwrap();
        });
        backing.stick(false);
    });
    shadow.device.check();
}

#[test]
fn damaged_data_are_not_given_out() {
    let mut rng = Rng::with_seed(seed(25));
    let backing = Arc::new(Faulty::new(2 * BYTES));
    let mut shadow = shadow(&backing, SLOT_BYTES);
    let bytes = b"something to find ".repeat(300);
    shadow.write(0, &bytes[..SLOT_BYTES]).unwrap();
    shadow.device.write_back(&all()).unwrap();
    fill(&mut shadow, &mut rng);
    shadow.write(0, &bytes[..SLOT_BYTES]).unwrap();
    shadow.device.write_back(&Selection { slots: vec![0..=0], ..all() }).unwrap();
    backing.damages.store(true, Relaxed);
    let error = shadow.device.read(0, &mut [0; 10]).unwrap_err();
    assert_eq!((error.errno(), &error), (5, &Error::Checksum { slot: 0 }));
    assert!(shadow.device.write(5, &[1]).is_err());
    backing.damages.store(false, Relaxed);
    shadow.compare(0, BYTES);
    shadow.device.check();
}

/// A write fails because a block can't be read. Exactly the slots that lie completely in the range
/// and precede the slot in the error are written.
#[test]
fn a_write_that_fails_names_the_slot_where_it_stopped() {
    let block = 4 * SLOT_BYTES;
    for damages in [false, true] {
        let mut rng = Rng::with_seed(seed(26));
        let backing = Arc::new(Faulty::new(2 * BYTES));
        let mut shadow = shadow(&backing, block);
        let noise: Vec<u8> = (0..BYTES).map(|_| rng.u8(..)).collect();
        shadow.write(0, &noise).unwrap();
        shadow.device.write_back(&all()).unwrap();
        let fail = |is_on: bool| {
            backing.damages.store(is_on && damages, Relaxed);
            backing.fail_every((is_on && !damages).into());
        };
        for (whole, is_from_start) in [(0, true), (1, true), (2, true), (1, false), (0, false)] {
            let nth = 2 * whole + usize::from(is_from_start);
            let at = nth * block + if is_from_start { 0 } else { SLOT_BYTES };
            let new = vec![0x5a; whole * SLOT_BYTES + 7];
            fail(true);
            let error = shadow.device.write(at as u64, &new).unwrap_err();
            let mut back = [0; 1];
            let unread = (at + whole * SLOT_BYTES) as u64;
            let unread_error = shadow.device.read(unread, &mut back).unwrap_err();
            fail(false);
            let named = unread / SLOT_BYTES as u64;
            let expected = match damages {
                true => Error::Checksum { slot: named },
                false => Error::Backing { slot: named, verb: "read", errno: libc::EIO },
            };
            assert_eq!((&error, &unread_error), (&expected, &expected), "{at}");
            shadow.bytes[at..unread as usize].fill(0x5a);
            shadow.check();
        }
    }
}

#[test]
fn a_file_takes_what_the_objects_take() {
    let path = std::env::temp_dir().join(format!("uzram-writeback-{}", std::process::id()));
    let file = Arc::new(BackingFile::create(&path, 8 << 20).unwrap());
    let mut shadow = Shadow::of(Device::new(with(file, SLOT_BYTES)).unwrap(), 0, BYTES);
    let mut rng = Rng::with_seed(seed(26));
    fill(&mut shadow, &mut rng);
    let done = shadow.device.write_back(&all()).unwrap();
    let on_disk = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap()) * 512;
    assert!(on_disk <= done.bytes * 105 / 100 + 8192, "{on_disk} for {done:?}");
    shadow.compare(0, BYTES);
    assert_eq!(BackingFile::open(&path).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let rounds = if is_long() { 2000 } else { 100 };
    for _ in 0..rounds {
        let at = rng.usize(..BYTES - 9000);
        shadow.write(at, &data(&mut rng, 9000)).unwrap();
        shadow.device.write_back(&Selection::of(Which::All)).unwrap();
    }
    shadow.compare(0, BYTES);
    shadow.device.check();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_file_that_can_not_be_made_leaves_nothing() {
    let path = std::env::temp_dir().join(format!("uzram-none-{}", std::process::id()));
    for bytes in [0, u64::MAX, i64::MAX as u64] {
        let refused = BackingFile::create(&path, bytes);
        assert!(refused.is_err() && !path.exists(), "{bytes} bytes: {refused:?}");
    }
    std::fs::write(&path, "of another").unwrap();
    assert_eq!(
        BackingFile::create(&path, 9).unwrap_err().kind(),
        std::io::ErrorKind::AlreadyExists
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"of another");
    std::fs::remove_file(&path).unwrap();
}
