//! A device under load, divided into stretches. Each stretch has a shadow. At any time, one thread
//! writes a stretch, or several threads read it.

use crate::load::{Sizes, Subject};
use crate::shadow::Shadow;
use fastrand::Rng;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use zram::{Device, Error, SLOT_BYTES};

/// The number of slots of a stretch.
const STRETCH: usize = 8;

pub struct Disk {
    pub device: Arc<Device>,
    stretches: Vec<RwLock<Shadow<Arc<Device>>>>,
}

impl Disk {
    pub fn new(device: Device) -> Self {
        let device = Arc::new(device);
        let bytes = STRETCH * SLOT_BYTES;
        let stretches = (0..device.disksize() as usize / bytes)
            .map(|nth| RwLock::new(Shadow::of(device.clone(), nth * bytes, bytes)));
        Disk { stretches: stretches.collect(), device }
    }

    fn read(&self, nth: usize) -> RwLockReadGuard<'_, Shadow<Arc<Device>>> {
        self.stretches[nth].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, nth: usize) -> RwLockWriteGuard<'_, Shadow<Arc<Device>>> {
        self.stretches[nth].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the whole device with the shadows.
    pub fn compare(&self) {
        (0..self.stretches.len()).for_each(|nth| self.read(nth).compare(0, STRETCH * SLOT_BYTES));
    }

    /// Discards all contents. All counters must be 0 afterwards.
    pub fn free_all(&self) {
        for nth in 0..self.stretches.len() {
            self.write(nth).discard(0, STRETCH * SLOT_BYTES).expect("whole slots and blocks");
        }
        self.check();
        let stat = self.device.mm_stat();
        assert_eq!((stat.orig_data_size, stat.compr_data_size, stat.same_pages), (0, 0, 0));
    }
}

/// Returns the contents of slots, `len` bytes in all. A slot compresses to about one of `sizes`, or
/// repeats one pattern.
fn data(rng: &mut Rng, sizes: &Sizes, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for block in bytes.chunks_mut(SLOT_BYTES) {
        block.fill(rng.u8(..));
        let noise = match rng.u32(..8) {
            0 => 0,
            1 => block.len(),
            _ => sizes.pick(rng).min(block.len()),
        };
        rng.fill(&mut block[..noise]);
    }
    bytes
}

/// Draws a range at any offset, or a range of whole slots.
fn range(rng: &mut Rng) -> (usize, usize) {
    if rng.bool() {
        let first = rng.usize(..STRETCH);
        return (first * SLOT_BYTES, rng.usize(1..=(STRETCH - first).min(4)) * SLOT_BYTES);
    }
    let at = rng.usize(..STRETCH * SLOT_BYTES);
    (at, rng.usize(..=(STRETCH * SLOT_BYTES - at).min(2 * SLOT_BYTES)))
}

impl Subject for Disk {
    fn largest(&self) -> usize {
        SLOT_BYTES
    }

    fn operate(&self, rng: &mut Rng, sizes: &Sizes, filled: usize) {
        let nth = rng.usize(..self.stretches.len());
        let (at, len) = range(rng);
        let done = match rng.u32(..8) {
            _ if nth * 1000 >= filled * self.stretches.len() => {
                self.write(nth).discard(0, STRETCH * SLOT_BYTES)
            }
            0..4 => self.write(nth).write(at, &data(rng, sizes, len)),
            4 => self.write(nth).discard(at, len),
            _ => {
                self.read(nth).compare(at, len);
                Ok(())
            }
        };
        assert!(matches!(done, Ok(()) | Err(Error::OutOfMemory { .. })), "{done:?}");
    }

    fn disturb(&self, rng: &mut Rng) {
        match rng.u32(..8) {
            0..3 => drop(self.device.compact()),
            3..6 => drop(self.device.shrink(rng.usize(..1 << 18))),
            6 => assert!(self.device.mem_total() > 0),
            _ => drop((self.device.freeable(), self.device.classes(), self.device.mm_stat())),
        }
    }

    fn pages_used(&self) -> usize {
        self.device.mm_stat().mem_used_total as usize / page::page_size()
    }

    fn set_limit(&self, pages: Option<usize>) {
        self.device.set_mem_limit(pages.map(|pages| (pages * page::page_size()) as u64));
    }

    fn moved(&self) -> (u64, u64) {
        let stat = self.device.compaction_stat();
        (stat.moved_objects, stat.plans)
    }

    fn check(&self) {
        self.device.check();
        self.compare();
    }
}
