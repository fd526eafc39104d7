//! Real pages stored on our device and on the kernel's zram: what each adds to the compressed bytes, and whether the
//! memory that ours counts is the memory it takes.

use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::census::Census;
use crate::inputs::Input;
use crate::kernel::{KernelZram, MmStat, Rival};
use crate::memory::{MachineMemory, ProcessMemory};
use crate::page::first_difference;
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;

const NAME: &str = "fill";
const REQUEST: usize = 64 << 10;
/// Fresh devices that are filled.
const FILLS: usize = 5;
/// Percent that all a full device adds to C may come to.
const OVERHEAD_MAX: f64 = 2.0;
/// Percent that counted and taken memory may be apart.
const AGREEMENT_MAX: f64 = 3.0;

/// Every input, one after the other.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for &input in &request.inputs {
        let pages = request.pages(input)?.load()?;
        let census = Census::of(&pages)?;
        let mut fills = (0..FILLS).map(|_| Ours::measure(&pages)).collect::<Result<Vec<_>, _>>()?;
        // The others on the machine take and give memory meanwhile: the middle one of the fills counts.
        fills.sort_by_key(|fill| fill.machine);
        let ours = fills.swap_remove(FILLS / 2);
        let kernel = match kernel_stat(&pages)? {
            Rival::Present(stat) => Rival::Present(stat.mem_used_total),
            Rival::Absent(reason) => Rival::Absent(reason),
        };
        ours.report(input, &census, &kernel, report)?;
    }
    Ok(())
}

/// Our device after it was filled and compared.
struct Ours {
    mem_used: u64,
    mem_total: u64,
    /// Growth of resident and swapped memory, page tables left out.
    held: u64,
    page_tables: u64,
    /// What the machine has less.
    machine: u64,
}

impl Ours {
    fn measure(pages: &AlignedBuf) -> Result<Ours, Error> {
        let (process, machine) = (ProcessMemory::now()?, MachineMemory::now()?);
        let device = Device::new(Config::new(pages.len() as u64)?)?;
        write(&device, pages)?;
        let (process_after, machine_after) = (ProcessMemory::now()?, MachineMemory::now()?);
        verify(&device, pages)?;
        Ok(Ours {
            mem_used: device.mm_stat().mem_used_total,
            mem_total: device.mem_total(),
            held: process_after.held().saturating_sub(process.held()),
            page_tables: process_after.page_tables.saturating_sub(process.page_tables),
            machine: machine.free.saturating_sub(machine_after.free),
        })
    }

    fn report(
        &self,
        input: Input,
        census: &Census,
        kernel: &Rival<u64>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let named = |figure: &str| format!("{}/{figure}", input.name());
        let over = |used: u64| census.overhead_percent(used).unwrap_or(f64::NAN);
        let beside = |figure: Figure, of: &dyn Fn(u64) -> f64| match kernel {
            Rival::Present(used) => figure.rival("kernel zram lz4", of(*used)),
            Rival::Absent(reason) => figure.rival_absent(reason),
        };
        let overhead = Figure::new(NAME, named("overhead over C"), over(self.mem_used), "%");
        report.add(beside(overhead.must(Bound::at_most(OVERHEAD_MAX)), &over))?;
        if let Rival::Present(used) = kernel {
            let share = over(self.mem_used) / over(*used);
            let figure = Figure::new(NAME, named("overhead, ours over the kernel's"), share, "");
            report.add(figure.must(Bound::at_most(1.0)))?;
        }
        let all = over(self.mem_total);
        report.add(Figure::new(NAME, named("everything counted over C"), all, "%"))?;
        for (figure, bytes) in [
            ("C by raw lz4", census.stored_bytes),
            ("mem_used", self.mem_used),
            ("mem_total", self.mem_total),
            ("page tables, beside mem_total", self.page_tables),
        ] {
            report.add(Figure::new(NAME, named(figure), bytes as f64 / MIB as f64, "MiB"))?;
        }
        let apart = |taken: u64| (taken as f64 / self.mem_total as f64 - 1.0).abs() * 100.0;
        let held = Figure::new(NAME, named("process memory off mem_total"), apart(self.held), "%");
        report.add(held.must(Bound::at_most(AGREEMENT_MAX)))?;
        let taken = self.machine.saturating_sub(self.page_tables);
        let machine = Figure::new(NAME, named("machine memory off mem_total"), apart(taken), "%");
        report.add(machine.must(Bound::at_most(AGREEMENT_MAX)))
    }
}

/// Writes all pages from the device's first byte on.
pub(super) fn write(device: &Device, pages: &[u8]) -> Result<(), Error> {
    for (index, piece) in pages.chunks(REQUEST).enumerate() {
        device.write((index * REQUEST) as u64, piece)?;
    }
    Ok(())
}

/// Reads them back and compares.
pub(super) fn verify(device: &Device, pages: &[u8]) -> Result<(), Error> {
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
pub(super) fn kernel_stat(pages: &AlignedBuf) -> Result<Rival<MmStat>, Error> {
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
