//! A device filled with pages. The figures are the memory that the device counts, and the memory
//! that the process and the machine lose. The kernel's device with the same pages reports its own
//! statistics.

use std::time::Duration;

use crate::machine::MachineMemory;
use measure::memory::HeldMemory;
use zram::{Config, Device};

use crate::Error;
use crate::aligned::AlignedBuf;
use crate::kernel::{KernelZram, MmStat, Rival};
use crate::size::MIB;

const REQUEST: usize = 64 << 10;

/// The memory of a uzram device after it was filled and verified.
#[derive(Debug, Clone, Copy)]
pub struct Filled {
    /// The bytes of the pool's pages.
    pub mem_used: u64,
    /// All bytes that the device counts.
    pub mem_total: u64,
    /// The growth of the process's resident and swapped memory without page tables, in bytes.
    pub held: u64,
    /// The growth of the process's page tables in bytes.
    pub page_tables: u64,
    /// The memory that the machine lost, in bytes.
    pub machine: u64,
}

impl Filled {
    /// Measures a fresh device filled with `pages`.
    pub fn measure(pages: &AlignedBuf) -> Result<Filled, Error> {
        let (process, machine) = (HeldMemory::now()?, MachineMemory::now()?);
        let device = Device::new(Config::new(pages.len() as u64)?)?;
        write(&device, pages)?;
        let (process_after, machine_after) = (HeldMemory::now()?, MachineMemory::now()?);
        verify(&device, pages)?;
        Ok(Filled {
            mem_used: device.mm_stat().mem_used_total,
            mem_total: device.mem_total(),
            held: process_after.held.saturating_sub(process.held),
            page_tables: process_after.page_tables.saturating_sub(process.page_tables),
            machine: machine.free.saturating_sub(machine_after.free),
        })
    }

    /// Measures `fills` fresh devices. Returns the figures of the device with the median loss of
    /// machine memory. Other processes can distort the loss, because they allocate and free memory
    /// at the same time.
    pub fn median(pages: &AlignedBuf, fills: usize) -> Result<Filled, Error> {
        let mut measured =
            (0..fills.max(1)).map(|_| Filled::measure(pages)).collect::<Result<Vec<_>, _>>()?;
        measured.sort_by_key(|filled| filled.machine);
        Ok(measured[measured.len() / 2])
    }

    /// Returns the difference between `taken` bytes and the bytes that the device counts, in
    /// percent.
    pub fn apart(&self, taken: u64) -> f64 {
        (taken as f64 / self.mem_total as f64 - 1.0).abs() * 100.0
    }

    /// Returns the memory that the machine lost, without page tables.
    pub fn machine_without_tables(&self) -> u64 {
        self.machine.saturating_sub(self.page_tables)
    }
}

/// The time after which freed memory no longer changes the figures. `UZRAM_BENCH_SETTLE` sets
/// another time in milliseconds. Tests wait less, because they check only that figures are
/// reported.
const SETTLE: Duration = Duration::from_secs(1);

/// Waits after work that freed memory, until the use of memory is steady. Compaction continues
/// during this time.
pub fn settle() {
    let asked = std::env::var("UZRAM_BENCH_SETTLE").ok().and_then(|text| text.parse().ok());
    std::thread::sleep(asked.map_or(SETTLE, Duration::from_millis));
}

/// Writes all pages from the beginning of the device.
pub fn write(device: &Device, pages: &[u8]) -> Result<(), Error> {
    for (index, piece) in pages.chunks(REQUEST).enumerate() {
        device.write((index * REQUEST) as u64, piece)?;
    }
    Ok(())
}

/// Reads the pages back and compares them.
pub fn verify(device: &Device, pages: &[u8]) -> Result<(), Error> {
    let mut back = vec![0; REQUEST];
    for (index, piece) in pages.chunks(REQUEST).enumerate() {
        let offset = (index * REQUEST) as u64;
        let back = &mut back[..piece.len()];
        device.read(offset, back)?;
        Error::compare("our device", offset, piece, back)?;
    }
    Ok(())
}

/// Writes the pages to a device of the kernel, verifies them and returns the device's statistics.
pub fn kernel_stat(pages: &AlignedBuf) -> Result<Rival<MmStat>, Error> {
    KernelZram::acquire("lz4", pages.len() as u64)?.try_map(|device| {
        device.write(0, pages, MIB as usize)?;
        device.verify(0, pages, MIB as usize)?;
        let stat = device.mm_stat()?;
        device.remove()?;
        Ok(stat)
    })
}
