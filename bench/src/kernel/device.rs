//! One private zram device of the kernel, used with direct I/O.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::made::{Made, Refused};
use super::{MmStat, Rival};
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::undo::Undo;

const REQUEST_MIN: usize = 4096;
const RIGHTS: &str = "run as root on a machine whose kernel has zram";

/// A zram device of the kernel, which is closed, reset and removed on drop. SIGINT, SIGQUIT,
/// SIGTERM and SIGHUP also remove the device, and end the process with status 130.
#[derive(Debug)]
pub struct KernelZram {
    made: Arc<Made>,
    undo: Undo,
}

impl KernelZram {
    /// Creates a new device of `disksize` bytes with the compression `algorithm`, or returns the
    /// reason why no device is available.
    pub fn acquire(algorithm: &str, disksize: u64) -> Result<Rival<KernelZram>, Error> {
        let (made, undo) = match Made::new() {
            Ok(made) => made,
            Err(Refused::Absent(reason)) => return Ok(Rival::Absent(reason)),
            Err(Refused::Failed(error)) => return Err(error),
        };
        // From here on, the value's drop removes the device.
        let device = KernelZram { made, undo };
        if device.number() == 0 {
            return Ok(Rival::Absent(
                "the kernel's first device, zram0, is left to the system".into(),
            ));
        }
        let offered = device.attribute("comp_algorithm")?;
        if !offered.split_whitespace().any(|name| name.trim_matches(['[', ']']) == algorithm) {
            return Ok(Rival::Absent(format!(
                "the kernel's zram has no {algorithm}, only {}",
                offered.trim()
            )));
        }
        device.set_attribute("comp_algorithm", algorithm)?;
        device.set_attribute("disksize", &disksize.to_string())?;
        let node = device.made.node();
        let flags = OFlags::DIRECT.bits().cast_signed();
        match OpenOptions::new().read(true).write(true).custom_flags(flags).open(&node) {
            Ok(file) => {
                *device.made.file.write().unwrap_or_else(PoisonError::into_inner) = Some(file)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Rival::Absent(format!("{} has not appeared", node.display())));
            }
            Err(error) => return Err(Error::file("open", &node, RIGHTS)(error)),
        }
        Ok(Rival::Present(device))
    }

    /// Returns the N of `/dev/zramN`.
    pub fn number(&self) -> u32 {
        self.made.number()
    }

    /// Returns the path of the device's file.
    pub fn node(&self) -> PathBuf {
        self.made.node()
    }

    /// Writes `data` to the device from `offset` on, in requests of `request` bytes.
    pub fn write(&self, offset: u64, data: &AlignedBuf, request: usize) -> Result<(), Error> {
        check_request(request)?;
        for (index, piece) in data.chunks(request).enumerate() {
            self.write_at(offset + (index * request) as u64, piece)?;
        }
        Ok(())
    }

    /// Executes one write request. `piece` is a part of an [`AlignedBuf`] that begins and ends on a
    /// page boundary.
    pub fn write_at(&self, offset: u64, piece: &[u8]) -> Result<(), Error> {
        self.with_file("write to", |file| file.write_all_at(piece, offset))
    }

    /// Executes one read request. `piece` is a part of an [`AlignedBuf`] that begins and ends on a
    /// page boundary.
    pub fn read_at(&self, offset: u64, piece: &mut [u8]) -> Result<(), Error> {
        self.with_file("read", |file| file.read_exact_at(piece, offset))
    }

    /// Discards the pages of a range.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.with_file("discard on", |file| Ok(fallocate(file, flags, offset, len)?))
    }

    /// Reads the device from `offset` on, in requests of `request` bytes, and compares the result
    /// with `expected`.
    pub fn verify(&self, offset: u64, expected: &AlignedBuf, request: usize) -> Result<(), Error> {
        let mut found = AlignedBuf::zeroed(expected.len());
        check_request(request)?;
        for (index, piece) in found.chunks_mut(request).enumerate() {
            self.read_at(offset + (index * request) as u64, piece)?;
        }
        Error::compare(&self.made.node().display().to_string(), offset, expected, &found)
    }

    /// Returns the device's memory statistics.
    pub fn mm_stat(&self) -> Result<MmStat, Error> {
        MmStat::parse(&self.attribute("mm_stat")?)
    }

    /// Compacts the device's pool.
    pub fn compact(&self) -> Result<(), Error> {
        self.set_attribute("compact", "1")
    }

    /// Returns the text of an attribute under `/sys/block/zramN`.
    pub fn attribute(&self, name: &str) -> Result<String, Error> {
        let path = self.made.attribute(name);
        fs::read_to_string(&path).map_err(Error::file("read", &path, RIGHTS))
    }

    /// Sets an attribute under `/sys/block/zramN`.
    pub fn set_attribute(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.made.attribute(name);
        fs::write(&path, value).map_err(Error::file("write to", &path, RIGHTS))
    }

    /// Removes the device and returns any error. A drop would only print the error.
    pub fn remove(self) -> Result<(), Error> {
        self.undo.now()
    }

    fn with_file<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&File) -> io::Result<T>,
    ) -> Result<T, Error> {
        let node = self.made.node();
        let guard = self.made.file.read().unwrap_or_else(PoisonError::into_inner);
        let file = guard
            .as_ref()
            .ok_or_else(|| Error::DeviceGone { device: node.display().to_string() })?;
        let remedy =
            "direct I/O wants whole, aligned pages inside the device, and the machine free memory";
        work(file).map_err(Error::file(action, &node, remedy))
    }
}

fn check_request(request: usize) -> Result<(), Error> {
    if request >= REQUEST_MIN && request.is_multiple_of(REQUEST_MIN) {
        return Ok(());
    }
    let reason = format!("requests of {request} bytes");
    Err(Error::Setup { reason, remedy: "take a multiple of 4096" })
}
