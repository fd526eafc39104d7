//! Tests that a save allocates nothing after its start, so it can't fail for lack of memory. Tests
//! that a restore that gets no memory returns an error.
#![allow(clippy::unwrap_used)]
#![allow(unsafe_code)]

use fastrand::Rng;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use testkit::contents::data;
use testkit::faulty::Faulty;
use testkit::seed;
use zram::{Config, Damage, Device, Error, SLOT_BYTES, SaveOptions, SaveTo, Selection};

const BYTES: usize = 2 << 20;

/// The maximum size in bytes of an allocation that is always granted, such as an error's text or a
/// thread's name.
const SMALL: usize = 1024;

static IS_FULL: AtomicBool = AtomicBool::new(false);

/// An allocator that refuses large allocations while `IS_FULL` is set.
struct Refusing;

#[global_allocator]
static MEMORY: Refusing = Refusing;

// SAFETY: each call is passed to the system's allocator, or returns null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= SMALL && IS_FULL.load(SeqCst) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller fulfills the requirements of `alloc`, which are the same for `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfills the requirements of `dealloc`: the system's allocator
        // returned `pointer`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A writer that sets `IS_FULL` at the first byte.
struct Filling(Vec<u8>);

impl Write for Filling {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        IS_FULL.store(true, SeqCst);
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a device whose data are all written back.
fn written_back(block: usize, rng: &mut Rng) -> (Device, Arc<Faulty>) {
    let backing = Arc::new(Faulty::new(2 * BYTES));
    let backed = Some(backing.clone() as _);
    let config = Config { block, backing: backed, ..Config::new(BYTES as u64).unwrap() };
    let device = Device::new(config).unwrap();
    for at in (0..BYTES).step_by(16 * SLOT_BYTES) {
        let bytes: Vec<u8> = (0..16).flat_map(|_| data(rng, SLOT_BYTES)).collect();
        device.write(at as u64, &bytes).unwrap();
    }
    device.write_back(&Selection::default()).unwrap();
    (device, backing)
}

/// Both parts are one test, because `IS_FULL` affects all threads. The thread of a second test
/// could fail to start.
#[test]
fn what_takes_no_memory_is_done_without() {
    a_save_begun_takes_no_memory_though_reads_of_the_store_fail();
    a_list_of_what_is_lost_that_finds_no_memory_is_an_error();
}

fn a_save_begun_takes_no_memory_though_reads_of_the_store_fail() {
    let mut rng = Rng::with_seed(seed(61));
    for block in [SLOT_BYTES, 4 * SLOT_BYTES] {
        for every in [0, 2, 1] {
            let (device, backing) = written_back(block, &mut rng);
            backing.fail_every(every);
            let mut out = Filling(Vec::with_capacity(2 * BYTES));
            let saved = device.save(SaveTo::Writer(&mut out), &SaveOptions::default());
            IS_FULL.store(false, SeqCst);
            let saved = saved.unwrap();
            assert_eq!(saved.lost_slots > 0, every > 0, "every {every}: {saved:?}");
        }
    }
}

/// A reader that sets `IS_FULL` after the header.
struct FullBehind<'f>(&'f [u8], usize);

impl Read for FullBehind<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        IS_FULL.store(self.0.len() < self.1, SeqCst);
        self.0.read(buf)
    }
}

/// The list of lost ranges grows with the file.
fn a_list_of_what_is_lost_that_finds_no_memory_is_an_error() {
    let (device, backing) = written_back(SLOT_BYTES, &mut Rng::with_seed(seed(62)));
    backing.fail_every(2);
    let mut file = Vec::new();
    let saved = device.save(SaveTo::Writer(&mut file), &SaveOptions::default()).unwrap();
    assert!(saved.lost.len() > SMALL / size_of::<[u32; 2]>(), "{saved:?}");
    let empty = || Device::new(Config::new(BYTES as u64).unwrap()).unwrap();
    let refused =
        empty().restore_from(&mut FullBehind(&file, file.len() - SLOT_BYTES), Damage::Salvage);
    IS_FULL.store(false, SeqCst);
    assert!(matches!(refused, Err(Error::NoBuffer { .. })), "{refused:?}");
    let done = empty().restore_from(&mut &file[..], Damage::Salvage).unwrap();
    assert_eq!(done.lost, saved.lost);
}
