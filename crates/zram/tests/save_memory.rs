//! A save takes no memory once it has begun, so none fails for want of it, whatever it meets.
#![allow(clippy::unwrap_used)]
#![allow(unsafe_code)]

mod support;

use fastrand::Rng;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use support::data::data;
use support::faulty::Faulty;
use support::load::seed;
use zram::{BLOCK, Config, Device, Selection};

const BYTES: usize = 2 << 20;

/// What is smaller is granted: an error's text, a thread's name.
const SMALL: usize = 1024;

static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Refuses all but what is small while memory is full.
struct Refusing;

#[global_allocator]
static MEMORY: Refusing = Refusing;

// SAFETY: all is done by the system's allocator, or refused.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= SMALL && IS_FULL.load(SeqCst) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Memory is full from the first byte on.
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

#[test]
fn a_save_begun_takes_no_memory_though_reads_of_the_store_fail() {
    let mut rng = Rng::with_seed(seed(61));
    for block in [BLOCK, 4 * BLOCK] {
        for every in [0, 2, 1] {
            let backing = Arc::new(Faulty::new(2 * BYTES));
            let backed = Some(backing.clone() as _);
            let config = Config { block, backing: backed, ..Config::new(BYTES as u64).unwrap() };
            let device = Device::new(config).unwrap();
            for at in (0..BYTES).step_by(16 * BLOCK) {
                let bytes: Vec<u8> = (0..16).flat_map(|_| data(&mut rng, BLOCK)).collect();
                device.write(at as u64, &bytes).unwrap();
            }
            device.write_back(&Selection::default()).unwrap();
            backing.fail_every(every);
            let mut out = Filling(Vec::with_capacity(2 * BYTES));
            let saved = device.save_to(&mut out);
            IS_FULL.store(false, SeqCst);
            let saved = saved.unwrap();
            assert_eq!(saved.lost_slots > 0, every > 0, "every {every}: {saved:?}");
        }
    }
}
