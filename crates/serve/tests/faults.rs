//! Tests disks that fail, are slow or are full. Only the affected request gets an error, and all
//! other requests succeed.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::io::Errno;
use serve::nbd::{Exports, Mode, Options};
use serve::{Disk, Extent};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use support::*;
use zram::{Config, Device};

/// A disk that fails in its second half, is slow in the block before the last, and panics in the
/// last block.
struct Faulty(Arc<Device>);

/// Whether the slow request is allowed to end.
static MAY_END: AtomicBool = AtomicBool::new(false);

const BAD: u64 = 32 * MIB;
const LAST: u64 = 64 * MIB - 4096;

impl Faulty {
    fn check(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let end = offset + len;
        assert!(end <= LAST, "this disk panics");
        if end > LAST - 4096 {
            until("something else is answered", || MAY_END.load(SeqCst));
            return Ok(());
        }
        if end > BAD { Err(Errno::IO) } else { Ok(()) }
    }
}

impl Disk for Faulty {
    fn size(&self) -> u64 {
        64 * MIB
    }

    fn block(&self) -> u32 {
        4096
    }

    fn may_wait(&self, _offset: u64, _len: u64) -> bool {
        false
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Errno> {
        self.check(offset, buf.len() as u64)?;
        Disk::read(&self.0, offset, buf)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.check(offset, bytes.len() as u64)?;
        Disk::write(&self.0, offset, bytes)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.check(offset, len)
    }

    fn flush(&self) -> Result<(), Errno> {
        Err(Errno::NODEV)
    }

    fn extents(&self, range: Range<u64>, each: &mut dyn FnMut(Extent) -> bool) {
        each(Extent { len: range.end - range.start, is_stored: true });
    }
}

fn faulty() -> Exports {
    let device = device(Config::new(64 * MIB).unwrap());
    Exports::new([export("disk", Arc::new(Faulty(device)), Mode::ReadWrite)])
}

#[test]
fn an_error_is_of_one_request_only() {
    let served = Served::new(faulty());
    let mut client = served.chosen();
    for kind in [READ, TRIM, WRITE_ZEROES] {
        assert_eq!(client.error_of(kind, 0, BAD, 4096), EIO);
        assert_eq!(client.error_of(kind, 0, 0, 4096), 0);
    }
    assert_eq!(client.write(0, BAD, &[1; 4096]), EIO);
    assert_eq!(client.error_of(WRITE_ZEROES, NO_HOLE, BAD - 4096, 1 << 20), EIO);
    assert_eq!(client.error_of(FLUSH, 0, 0, 0), 108);
    // A long read fails in the middle. The server sends the parts before the failure, and then the
    // error.
    let reply = client.request(READ, 0, BAD - (1 << 20), 2 << 20);
    assert_eq!((reply.error, reply.parts.len()), (EIO, 4));
    assert_eq!(client.read(0, 512), [0; 512]);
}

#[test]
fn a_simple_reply_that_can_t_be_finished_ends_the_connection() {
    let served = Served::new(faulty());
    let mut client = served.greeted();
    client.choose("disk", false);
    assert_eq!(client.error_of(READ, 0, BAD, 2 << 20), EIO);
    client.send_header(READ, 0, BAD - (1 << 20), 2 << 20);
    assert_eq!(client.receive(16)[4..8], [0; 4]);
    client.receive(1 << 20);
    assert!(client.is_closed());
    served.logged("a block could not be read in the middle of a reply");
}

#[test]
fn a_panic_ends_one_connection() {
    for workers in [1, 3] {
        let served = Served::with(faulty(), Options { workers, connections: 9 });
        let (mut one, mut other) = (served.chosen(), served.chosen());
        one.send_header(READ, 0, LAST, 4096);
        assert!(one.is_closed());
        assert_eq!(other.read(0, 512), [0; 512]);
        served.settled(1);
    }
}

#[test]
fn a_slow_request_holds_up_no_others() {
    let served = Served::new(faulty());
    let mut client = served.chosen();
    // The request is heavy enough that another worker receives while this request is served.
    let slow = client.send_header(WRITE, 0, LAST - 40_960, 40_960);
    client.send(&[1; 40_960]);
    let quick = client.send_header(READ, 0, 0, 512);
    assert_eq!(client.reply().cookie, quick);
    MAY_END.store(true, SeqCst);
    assert_eq!(client.reply().cookie, slow);
}

#[test]
fn a_full_disk_has_no_space_left_and_keeps_what_it_has() {
    let config = Config { mem_limit: Some(4 << 20), ..Config::new(64 * MIB).unwrap() };
    let device = device(config);
    let served =
        Served::new(Exports::new([export("disk", Arc::new(device.clone()), Mode::ReadWrite)]));
    let mut client = served.chosen();
    let noise = |nth: u64| {
        let mut bytes = vec![0; 64 << 10];
        fastrand::Rng::with_seed(testkit::seed_of(nth)).fill(&mut bytes);
        bytes
    };
    let mut stored = 0;
    while client.write(0, stored * (64 << 10), &noise(stored)) == 0 {
        stored += 1;
        assert!(stored < 80, "there is no limit");
    }
    assert!(stored > 50);
    assert_eq!(client.write(0, 50 * MIB, &noise(999)), ENOSPC);
    for nth in 0..stored {
        assert!(client.read(nth * (64 << 10), 64 << 10) == noise(nth));
    }
    // Stored data can be overwritten and freed. A discard makes memory available again.
    assert_eq!(client.write(0, 0, &noise(777)), 0);
    assert_eq!(client.error_of(TRIM, 0, 0, 1 << 20), 0);
    assert_eq!(client.write(0, 50 * MIB, &noise(999)), 0);
    assert!(client.read(50 * MIB, 64 << 10) == noise(999));
    assert!(device.mm_stat().mem_used_max <= 4 << 20);
}
