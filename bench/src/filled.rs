//! A device filled with pages: what it counts, what the process and the machine have less, and the
//! kernel's beside it.

use measure::memory::{HeldMemory, MachineMemory};
use measure::page::first_difference;
use zram::{Config, Device};

use crate::Error;
use crate::aligned::AlignedBuf;
use crate::kernel::{KernelZram, MmStat, Rival};
use crate::size::MIB;

const REQUEST: usize = 64 << 10;

/// The memory of our device after it was filled and compared.
#[derive(Debug, Clone, Copy)]
pub struct Filled {
    /// Bytes of pool pages.
    pub mem_used: u64,
    /// All bytes counted.
    pub mem_total: u64,
    /// Growth of resident and swapped memory, page tables left out.
    pub held: u64,
    /// Growth of page tables.
    pub page_tables: u64,
    /// What the machine has less.
    pub machine: u64,
}

impl Filled {
    /// Of a fresh device that takes `pages`.
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

    /// Of `fills` fresh devices. The others on the machine take and give memory meanwhile: the one
    /// in the middle counts.
    pub fn median(pages: &AlignedBuf, fills: usize) -> Result<Filled, Error> {
        let mut measured =
            (0..fills.max(1)).map(|_| Filled::measure(pages)).collect::<Result<Vec<_>, _>>()?;
        measured.sort_by_key(|filled| filled.machine);
        Ok(measured[measured.len() / 2])
    }

    /// Percent that `taken` bytes are off what the device counts.
    pub fn apart(&self, taken: u64) -> f64 {
        (taken as f64 / self.mem_total as f64 - 1.0).abs() * 100.0
    }

    /// What the machine has less, page tables left out.
    pub fn machine_without_tables(&self) -> u64 {
        self.machine.saturating_sub(self.page_tables)
    }
}

/// Writes all pages from the device's first byte on.
pub fn write(device: &Device, pages: &[u8]) -> Result<(), Error> {
    for (index, piece) in pages.chunks(REQUEST).enumerate() {
        device.write((index * REQUEST) as u64, piece)?;
    }
    Ok(())
}

/// Reads them back and compares.
pub fn verify(device: &Device, pages: &[u8]) -> Result<(), Error> {
    let mut back = vec![0; REQUEST];
    for (index, piece) in pages.chunks(REQUEST).enumerate() {
        let offset = (index * REQUEST) as u64;
        let back = &mut back[..piece.len()];
        device.read(offset, back)?;
        if let Some(at) = first_difference(piece, back) {
            let device = "our device".into();
            return Err(Error::Mismatch { device, offset: offset + at as u64 });
        }
    }
    Ok(())
}

/// What the kernel's device says of the same pages, written and compared.
pub fn kernel_stat(pages: &AlignedBuf) -> Result<Rival<MmStat>, Error> {
    let device = match KernelZram::acquire("lz4", pages.len() as u64)? {
        Rival::Present(device) => device,
        Rival::Absent(reason) => return Ok(Rival::Absent(reason)),
    };
    device.write(0, pages, MIB as usize)?;
    device.verify(0, pages, MIB as usize)?;
    let stat = device.mm_stat()?;
    device.remove()?;
    Ok(Rival::Present(stat))
}
