//! Tests that data in memory are freed only after they are durable in the store (zr-X4). In each
//! round another write to the store fails, and any of the syncs reports the failure.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use std::time::Duration;
use testkit::cached::Cached;
use testkit::shadow::Shadow;
use testkit::{is_long, seed};
use zram::{Backing, Config, Device, Error, Selection, WritebackLimit};

const BYTES: usize = 12 << 20;

/// Returns a device full of noise, whose write-back takes a dozen writes of 1 MiB.
fn noise<B: Backing + 'static>(backing: &Arc<B>, batch: u32) -> Shadow<Device> {
    let writeback = Arc::new(WritebackLimit::default());
    writeback.set_batch(batch);
    let backing = Some(backing.clone() as _);
    let config = Config { backing, writeback, ..Config::new(BYTES as u64).unwrap() };
    let mut shadow = Shadow::of(Device::new(config).unwrap(), 0, BYTES);
    let mut rng = Rng::with_seed(seed(71));
    let noise: Vec<u8> = (0..BYTES / 8).flat_map(|_| rng.u64(..).to_ne_bytes()).collect();
    shadow.write(0, &noise).unwrap();
    shadow
}

/// In each round another write fails. During this failure, syncs of several groups are under way,
/// and the system writes its page cache in the background.
#[test]
fn no_group_commits_what_another_was_told_of() {
    for (batch, in_background) in [(1, false), (1, true), (2, false), (2, true)] {
        for round in 0..if is_long() { 20 } else { 1 } {
            let mut failed = 0;
            for nth in 1..=13 {
                let backing = Arc::new(Cached::new(2 * BYTES, nth));
                let shadow = noise(&backing, batch);
                let is_over = AtomicBool::new(false);
                let done = thread::scope(|scope| {
                    scope.spawn(|| {
                        while in_background && !is_over.load(Relaxed) {
                            backing.flush();
                            thread::yield_now();
                        }
                    });
                    let done = shadow.device.write_back(&Selection::default());
                    is_over.store(true, Relaxed);
                    done
                });
                if backing.has_failed() {
                    failed += 1;
                    let error = done.unwrap_err();
                    assert!(matches!(error, Error::Backing { .. }), "{error}");
                } else {
                    done.unwrap();
                }
                shadow.compare(0, BYTES);
                shadow.device.check();
                // The store has no further failures.
                let done = shadow.device.write_back(&Selection::default()).unwrap();
                assert!(done.slots > 0 || !backing.has_failed(), "{done:?}");
                shadow.compare(0, BYTES);
            }
            assert!(failed >= 11, "round {round}: {failed} writes failed");
        }
    }
}

/// A store whose first sync waits until `wanted` writes were made, or until a time limit has
/// passed.
#[derive(Debug)]
struct Waiting {
    through: Cached,
    writes: Mutex<usize>,
    written: Condvar,
    wanted: usize,
    seen: OnceLock<usize>,
}

impl Backing for Waiting {
    fn name(&self) -> String {
        self.through.name()
    }

    fn bytes(&self) -> u64 {
        self.through.bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.through.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        *self.writes.lock().unwrap() += 1;
        self.written.notify_all();
        self.through.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.seen.get_or_init(|| {
            let is_wanting = |writes: &mut usize| *writes < self.wanted;
            let (writes, moment) = (self.writes.lock().unwrap(), Duration::from_secs(300));
            *self.written.wait_timeout_while(writes, moment, is_wanting).unwrap().0
        });
        self.through.sync()
    }
}

/// Syncs run one after another, but the writes of later groups do not wait for a sync.
#[test]
fn groups_are_written_while_another_is_synced() {
    let (through, wanted) = (Cached::new(2 * BYTES, 0), 4);
    let (writes, written, seen) = (Mutex::default(), Condvar::new(), OnceLock::new());
    let backing = Arc::new(Waiting { through, writes, written, wanted, seen });
    let shadow = noise(&backing, 1);
    let done = shadow.device.write_back(&Selection::default()).unwrap();
    assert_eq!(backing.seen.get(), Some(&wanted), "writes by the end of a sync: {done:?}");
    shadow.compare(0, BYTES);
}
