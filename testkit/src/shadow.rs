//! An array with the expected contents of a device, or of a part of a device.

use std::borrow::Borrow;
use zram::{Config, Device, Error, SLOT_BYTES};

/// The expected contents of a device from `base` on.
pub struct Shadow<D> {
    pub device: D,
    pub base: usize,
    pub bytes: Vec<u8>,
}

impl Shadow<Device> {
    /// Returns a device with a shadow of all its contents.
    pub fn new(config: Config) -> Result<Self, Error> {
        let device = Device::new(config)?;
        let len = device.disksize() as usize;
        Ok(Shadow::of(device, 0, len))
    }
}

impl<D: Borrow<Device>> Shadow<D> {
    /// Returns a shadow of `len` bytes, all of which are zero.
    pub fn of(device: D, base: usize, len: usize) -> Self {
        Shadow { device, base, bytes: vec![0; len] }
    }

    fn offset(&self, at: usize) -> u64 {
        (self.base + at) as u64
    }

    /// Reads `len` bytes at `at` and compares them with the shadow.
    pub fn compare(&self, at: usize, len: usize) {
        let mut back = vec![0xee; len];
        self.device.borrow().read(self.offset(at), &mut back).unwrap();
        let differs = back.iter().zip(&self.bytes[at..]).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{len} bytes at {}", self.offset(at));
    }

    /// Compares all contents, and checks the invariants of the device.
    pub fn check(&self) {
        self.device.borrow().check();
        self.compare(0, self.bytes.len());
    }

    pub fn write(&mut self, at: usize, data: &[u8]) -> Result<(), Error> {
        let written = self.device.borrow().write(self.offset(at), data);
        self.settle(at, data, written)
    }

    pub fn discard(&mut self, at: usize, len: usize) -> Result<(), Error> {
        let discarded = self.device.borrow().discard(self.offset(at), len as u64);
        self.settle(at, &vec![0; len], discarded)
    }

    /// Records the result of a request. After a refused request, every slot holds either its old or
    /// its new bytes.
    pub fn settle(&mut self, at: usize, data: &[u8], done: Result<(), Error>) -> Result<(), Error> {
        match done {
            Ok(()) => self.bytes[at..at + data.len()].copy_from_slice(data),
            Err(_) => self.adopt(at, data),
        }
        done
    }

    /// Copies to the shadow the slots that a failed request has stored.
    pub fn adopt(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        let mut start = at;
        while start < end {
            let next =
                ((self.base + start) / SLOT_BYTES * SLOT_BYTES + SLOT_BYTES - self.base).min(end);
            let mut back = vec![0; next - start];
            self.device.borrow().read(self.offset(start), &mut back).unwrap();
            let new = &data[start - at..next - at];
            assert!(back == new || back == self.bytes[start..next], "at {}", self.offset(start));
            self.bytes[start..next].copy_from_slice(&back);
            start = next;
        }
    }
}
