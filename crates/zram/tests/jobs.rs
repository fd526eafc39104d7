//! Tests the progress and cancellation of jobs, and the prediction that a request may have to wait.
#![allow(clippy::unwrap_used)]

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;
use testkit::faulty::Faulty;
use testkit::watched_codec::{Call, WatchedCodec};
use zram::{
    Algorithm, Config, Damage, Device, Error, JobKind, Recompress, SLOT_BYTES, SaveOptions, SaveTo,
    Selection, WritebackLimit,
};

const BYTES: usize = 4 << 20;
const SLOTS: u64 = (BYTES / SLOT_BYTES) as u64;

fn config() -> Config {
    Config {
        recompression: [Some(Algorithm::new(zcomp::by_name("zstd").unwrap())), None, None],
        ..Config::new(BYTES as u64).unwrap()
    }
}

/// Returns bytes that compress only a little.
fn contents() -> Vec<u8> {
    let mut bytes = vec![b'.'; BYTES];
    for (nth, piece) in bytes.chunks_mut(64).enumerate() {
        let seed = (nth as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..4).for_each(|word| {
            let noise = seed.rotate_left(word * 16) ^ seed.wrapping_mul(u64::from(word) + 3);
            piece[word as usize * 8..][..8].copy_from_slice(&noise.to_le_bytes());
        });
    }
    bytes
}

/// Returns a device that is full of the bytes from `contents`.
fn full(config: Config) -> Device {
    let device = Device::new(config).unwrap();
    device.write(0, &contents()).unwrap();
    device
}

/// A reader or writer that cancels the device's job after `left` bytes.
struct Cancelling<'d, T> {
    device: &'d Device,
    left: usize,
    kind: JobKind,
    through: T,
}

impl<T> Cancelling<'_, T> {
    fn gone(&mut self, bytes: usize) {
        let job = self.device.job().unwrap();
        assert!((job.kind, job.of) == (self.kind, SLOTS) && job.done <= SLOTS, "{job:?}");
        let before = self.left;
        self.left = before.saturating_sub(bytes);
        if before > 0 && self.left == 0 {
            assert!(job.done > 0, "{job:?}");
            self.device.cancel_job();
        }
    }
}

impl<W: Write> Write for Cancelling<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gone(bytes.len());
        self.through.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<R: Read> Read for Cancelling<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.gone(buf.len());
        self.through.read(buf)
    }
}

#[test]
fn saves_and_restores_are_watched_and_cancelled() {
    let device = full(config());
    assert_eq!(device.job(), None);
    let mut saved = Vec::new();
    device.save(SaveTo::Writer(&mut saved), &SaveOptions::default()).unwrap();
    let half = saved.len() / 2;
    let kind = JobKind::Save;
    let mut out = Cancelling { device: &device, left: half, kind, through: Vec::new() };
    assert_eq!(
        device.save(SaveTo::Writer(&mut out), &SaveOptions::default()),
        Err(Error::Cancelled)
    );
    assert!(out.through.len() < saved.len());

    let other = Device::new(config()).unwrap();
    let kind = JobKind::Restore;
    let mut from = Cancelling { device: &other, left: half, kind, through: &saved[..] };
    assert_eq!(other.restore_from(&mut from, Damage::Refuse), Err(Error::Cancelled));
    assert_eq!((other.block_state().count(), other.job()), (0, None));
    // The restore after the cancelled restore is a new job.
    assert_eq!(other.restore_from(&mut &saved[..], Damage::Refuse).unwrap().slots, SLOTS);
    other.check();
}

/// The codec zstd, extended to cancel a device's job after a certain number of compressions.
static CANCELLING: WatchedCodec = WatchedCodec { of: "zstd", before: cancel_after };
static CANCELLED: OnceLock<Weak<Device>> = OnceLock::new();
static LEFT: AtomicU64 = AtomicU64::new(100);

fn cancel_after(call: Call) -> Result<(), zcomp::Error> {
    if call == Call::Compress && LEFT.fetch_sub(1, Relaxed) == 1 {
        let device = CANCELLED.get().and_then(Weak::upgrade).unwrap();
        let job = device.job().unwrap();
        assert!((job.kind, job.of) == (JobKind::Recompress, 0) && job.done > 0, "{job:?}");
        device.cancel_job();
    }
    Ok(())
}

#[test]
fn what_was_recompressed_when_it_is_cancelled_stays() {
    let recompression = [Some(Algorithm::new(&CANCELLING)), None, None];
    let device = Arc::new(full(Config { recompression, ..config() }));
    CANCELLED.set(Arc::downgrade(&device)).unwrap();
    let before = device.mm_stat().compr_data_size;
    assert_eq!(device.recompress(&Recompress::default()), Err(Error::Cancelled));
    assert!(device.mm_stat().compr_data_size < before, "none became smaller");
    same_as_before(&device, 0);
    let done = device.recompress(&Recompress::default()).unwrap();
    assert_eq!(done.tried, SLOTS - 100);
    same_as_before(&device, 0);
}

#[test]
fn what_was_written_back_when_it_is_cancelled_stays() {
    // Each group has one write, so the data exceed the maximum size of writes in flight. The job
    // waits while the store is stuck.
    let times = 4;
    let backing = Arc::new(Faulty::new(times * BYTES));
    let writeback = Arc::new(WritebackLimit::default());
    writeback.set_batch(1);
    let config = Config {
        backing: Some(backing.clone()),
        writeback,
        ..Config::new((times * BYTES) as u64).unwrap()
    };
    let device = Device::new(config).unwrap();
    let starts = || (0..times).map(|nth| (nth * BYTES) as u64);
    starts().for_each(|start| device.write(start, &contents()).unwrap());
    assert!(device.mm_stat().compr_data_size > 7 << 20);
    backing.stick(true);
    thread::scope(|scope| {
        let job = scope.spawn(|| device.write_back(&Selection::default()));
        backing.wait_until_stuck(1);
        let stat = device.job().unwrap();
        assert!((stat.kind, stat.of) == (JobKind::WriteBack, 0) && stat.done > 0, "{stat:?}");
        device.cancel_job();
        backing.stick(false);
        assert_eq!(job.join().unwrap(), Err(Error::Cancelled));
    });
    let away = device.block_state().filter(|slot| slot.is_written_back).count() as u64;
    assert!(away > 0 && away < times as u64 * SLOTS, "{away}");
    starts().for_each(|start| same_as_before(&device, start));
}

fn same_as_before(device: &Device, start: u64) {
    let mut back = vec![0; BYTES];
    device.read(start, &mut back).unwrap();
    assert!(back == contents());
    device.check();
}

#[test]
fn requests_that_may_wait_are_known() {
    for block in [SLOT_BYTES, 4 * SLOT_BYTES] {
        let backing = Arc::new(Faulty::new(2 * BYTES));
        let device = full(Config { block, backing: Some(backing), ..config() });
        assert!(!device.may_wait(0, BYTES as u64));
        let slots = Selection { slots: vec![8..=11], ..Selection::default() };
        assert_eq!(device.write_back(&slots).unwrap().slots, 4);
        let (at, len) = (8 * SLOT_BYTES as u64, 4 * SLOT_BYTES as u64);
        assert!(device.may_wait(at, len) && device.may_wait(0, BYTES as u64));
        assert!(device.may_wait(at + len - 1, 1) && device.may_wait(at - 1, 2));
        assert!(!device.may_wait(at - 1, 1) && !device.may_wait(at + len, 1));
        assert!(!device.may_wait(at, 0) && !device.may_wait(BYTES as u64, 1));
        device.write(at, &vec![7; len as usize]).unwrap();
        assert!(!device.may_wait(0, BYTES as u64));
    }
    assert!(!full(config()).may_wait(0, 1));
}

#[test]
fn the_attribute_cancels_what_is_under_way() {
    let zram = zram::Zram::new();
    let refused = |value: &str| zram.store("cancel_job", value).unwrap_err().errno();
    assert_eq!(refused("1"), 22, "there is no device");
    zram.store("disksize", "4M").unwrap();
    assert_eq!((refused("1"), refused("2")), (3, 22));
    let device = zram.open().unwrap();
    device.write(0, &contents()).unwrap();
    struct Cancels<'z>(&'z zram::Zram);
    impl Write for Cancels<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.store("cancel_job", "1").unwrap();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(
        device.save(SaveTo::Writer(&mut Cancels(&zram)), &SaveOptions::default()),
        Err(Error::Cancelled)
    );
    assert_eq!(refused("1"), 3);
    assert!(device.save(SaveTo::Writer(&mut Vec::new()), &SaveOptions::default()).is_ok());
}

/// A reader that returns `left`, blocks until the test releases it, and then returns `rest`.
struct Stuck<'s> {
    left: &'s [u8],
    rest: &'s [u8],
    stuck: &'s std::sync::Barrier,
}

impl Read for Stuck<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            self.stuck.wait();
            self.stuck.wait();
            self.left = std::mem::take(&mut self.rest);
        }
        self.left.read(buf)
    }
}

#[test]
fn a_restore_that_is_given_up_takes_nothing_away_later() {
    let full = full(config());
    let mut saved = Vec::new();
    full.save(SaveTo::Writer(&mut saved), &SaveOptions::default()).unwrap();
    let device = Device::new(config()).unwrap();
    let stuck = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        let restoring = scope.spawn(|| {
            let mut from = Stuck { left: &saved[..saved.len() / 2], rest: &[], stuck: &stuck };
            device.restore_from(&mut from, Damage::Refuse)
        });
        stuck.wait();
        assert!(!device.give_up_job(Duration::from_millis(20)));
        device.write(0, &contents()).unwrap();
        stuck.wait();
        assert!(restoring.join().unwrap().is_err());
    });
    same_as_before(&device, 0);
}

/// Another job may already use the device when an abandoned restore's read returns.
#[test]
fn a_restore_that_is_given_up_puts_nothing_there_later() {
    let mut saved = Vec::new();
    full(config()).save(SaveTo::Writer(&mut saved), &SaveOptions::default()).unwrap();
    let device = Device::new(config()).unwrap();
    let stuck = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        let restoring = scope.spawn(|| {
            // The reader returns the header and the beginning of the first chunk, so no chunk is
            // being loaded when the reader blocks.
            let (left, rest) = saved.split_at(2 * SLOT_BYTES);
            device.restore_from(&mut Stuck { left, rest, stuck: &stuck }, Damage::Refuse)
        });
        stuck.wait();
        assert!(!device.give_up_job(Duration::from_millis(20)));
        stuck.wait();
        assert_eq!(restoring.join().unwrap(), Err(Error::Cancelled));
    });
    let mut back = vec![1; BYTES];
    device.read(0, &mut back).unwrap();
    assert!(back.iter().all(|&byte| byte == 0), "something was put there");
}
