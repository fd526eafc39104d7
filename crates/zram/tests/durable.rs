//! What leaves memory is durable elsewhere (X4), whichever write fails, whoever is told of it, and whenever.
#![allow(clippy::unwrap_used)]

mod support;

use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use support::cached::Cached;
use support::load::{is_long, seed};
use support::shadow::Shadow;
use zram::{Config, Device, Error, Selection, WritebackLimit};

const BYTES: usize = 12 << 20;

/// A device of noise, which takes a dozen writes of a MiB.
fn noise(backing: &Arc<Cached>, batch: u32) -> Shadow<Device> {
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

/// Each write fails in turn; while syncs of several groups are under way, and while the system writes by itself.
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
                // It works again.
                let done = shadow.device.write_back(&Selection::default()).unwrap();
                assert!(done.slots > 0 || !backing.has_failed(), "{done:?}");
                shadow.compare(0, BYTES);
            }
            assert!(failed >= 11, "round {round}: {failed} writes failed");
        }
    }
}
