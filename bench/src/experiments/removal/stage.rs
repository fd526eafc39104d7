//! A uzram device and the kernel's zram, filled with the same pages, some of which are discarded.

use std::time::Instant;

use crate::census::Census;
use crate::machine::MachineMemory;
use measure::memory::HeldMemory;
use measure::page::PAGE_SIZE;
use zram::Compaction;

use super::{NAME, Removal};
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::kernel::{KernelZram, Rival};
use crate::report::{Bound, Figure, Report};
use crate::size::{MIB, mebibytes};
use crate::stores::{Compacted, DeviceStore, Kept, settle};

/// The maximum overhead over C after any removal, in percent.
const OVERHEAD_MAX: f64 = 2.5;
/// The maximum number of bytes that compaction moves per byte freed.
const MOVED_MAX: f64 = 1.0;

/// Selects whether the kernel's device is used too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    Beside,
    Absent,
}

pub(super) struct Stage<'a> {
    removal: &'a Removal,
    ours: Kept<'a, DeviceStore, AlignedBuf>,
    kernel: Rival<KernelZram>,
    /// The time at which the last page was stored.
    filled: Instant,
    before: (HeldMemory, MachineMemory),
}

impl<'a> Stage<'a> {
    pub(super) fn new(removal: &'a Removal, kernel: Kernel) -> Result<Stage<'a>, Error> {
        let before = (HeldMemory::now()?, MachineMemory::now()?);
        let mut ours =
            Kept::new(&removal.pages, |slots| DeviceStore::new(slots, Compaction::Auto))?;
        ours.fill()?;
        let kernel = match kernel {
            Kernel::Beside => KernelZram::acquire("lz4", removal.pages.len() as u64)?,
            Kernel::Absent => Rival::Absent("left out".into()),
        };
        if let Rival::Present(kernel) = &kernel {
            kernel.write(0, &removal.pages, MIB as usize)?;
        }
        Ok(Stage { removal, ours, kernel, filled: Instant::now(), before })
    }

    pub(super) fn drop_pages(&mut self, pages: &[u32]) -> Result<(), Error> {
        for &page in pages {
            self.ours.drop_slot(page)?;
            if let Rival::Present(kernel) = &self.kernel {
                kernel.discard(u64::from(page) * PAGE_SIZE as u64, PAGE_SIZE as u64)?;
            }
        }
        Ok(())
    }

    fn census(&self) -> Census {
        self.removal.blobs.census(self.ours.held())
    }

    /// Reports the memory that the remaining data use. `all_max` returns the bound for all memory,
    /// given C.
    pub(super) fn report(
        &self,
        step: &str,
        all_max: impl Fn(u64) -> f64,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        settle();
        let census = self.census();
        let over = |used: u64| census.overhead_percent(used).unwrap_or(f64::NAN);
        let named = |figure: &str| format!("{step}/{figure}");
        let stored = mebibytes(census.stored_bytes);
        report.add(Figure::new(NAME, named("C by raw lz4"), stored, "MiB"))?;
        let used = over(self.ours.store().used());
        let overhead = Figure::new(NAME, named("overhead over C"), used, "%");
        let overhead = overhead.must(Bound::at_most(OVERHEAD_MAX));
        report.add(match &self.kernel {
            Rival::Present(kernel) => {
                overhead.rival("kernel zram lz4", over(kernel.mm_stat()?.mem_used_total))
            }
            Rival::Absent(reason) => overhead.rival_absent(reason),
        })?;
        let all = over(self.ours.store().device().mem_total());
        let all = Figure::new(NAME, named("everything counted"), all, "%");
        report.add(all.must(Bound::at_most(all_max(census.stored_bytes))))
    }

    /// Reports the work of compaction.
    pub(super) fn report_effort(&self, what: &str, report: &mut Report<'_>) -> Result<(), Error> {
        let named = |figure: &str| format!("{what}/{figure}");
        let done = self.ours.store().compaction();
        let blobs = &self.removal.blobs;
        let freed = blobs.census(0..self.ours.slots()).stored_bytes - self.census().stored_bytes;
        let moved = Figure::new(
            NAME,
            named("bytes moved over bytes freed"),
            done.moved_bytes as f64 / freed as f64,
            "",
        );
        report.add(moved.must(Bound::at_most(MOVED_MAX)))?;
        let (cpu, time) = (done.cpu.as_secs_f64(), self.filled.elapsed().as_secs_f64());
        report.add(Figure::new(NAME, named("compaction's CPU time"), cpu, "s"))?;
        let share = Figure::new(NAME, named("of one core"), cpu / time * 100.0, "%");
        report.add(share)
    }

    /// Reports the memory that the machine and the process lost, compared with the counted memory.
    /// The kernel's device must be absent, because its memory is also part of the machine's memory.
    pub(super) fn report_machine(&self, what: &str, report: &mut Report<'_>) -> Result<(), Error> {
        settle();
        let (process, machine) = (HeldMemory::now()?, MachineMemory::now()?);
        let counted = mebibytes(self.ours.store().device().mem_total());
        for (figure, more, less) in [
            ("process memory taken", process.held, self.before.0.held),
            ("machine memory taken", self.before.1.free, machine.free),
        ] {
            let taken = mebibytes(more.saturating_sub(less));
            let figure = Figure::new(NAME, format!("{what}/{figure}"), taken, "MiB");
            report.add(figure.rival("mem_total", counted))?;
        }
        Ok(())
    }

    /// Reports the overhead of the kernel's device after compaction, which the kernel does only on
    /// demand.
    pub(super) fn compact_kernel(&self, what: &str, report: &mut Report<'_>) -> Result<(), Error> {
        let Rival::Present(kernel) = &self.kernel else { return Ok(()) };
        kernel.compact()?;
        let over = self.census().overhead_percent(kernel.mm_stat()?.mem_used_total);
        let figure = format!("{what}/kernel's overhead over C after its compact");
        report.add(Figure::new(NAME, figure, over.unwrap_or(f64::NAN), "%"))
    }

    /// Verifies that the remaining pages read back and the discarded ones read as zeros.
    pub(super) fn verify(&self) -> Result<(), Error> {
        self.ours.verify()
    }
}
