//! A source tree is stored on a uzram device and on the kernel's zram. Then the directories of the
//! tree are discarded one after the other, as in the kernel's patch of 2014. A figure is the memory
//! beyond the compressed bytes of the remaining pages. A second part discards random pages. In
//! contrast to the documents' experiment `untar`, no file system is used: the experiment itself
//! discards each page.

use std::time::Instant;

use crate::census::Census;
use fastrand::Rng;
use measure::page::PAGE_SIZE;
use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::blobs::Blobs;
use crate::filled::{self, settle};
use crate::inputs::{Input, PageSet, REMOVAL_ORDER};
use crate::kernel::{KernelZram, Rival};
use crate::report::{Bound, Figure, Report};
use crate::size::{MIB, mebibytes};

const NAME: &str = "removal";
/// The maximum overhead over C after any removal, in percent.
const OVERHEAD_MAX: f64 = 2.5;
/// The maximum overhead of all memory over C, in percent, if C is at least `SMALL` bytes.
const ALL_MAX: f64 = 4.5;
const ALL_MAX_SMALL: f64 = 6.0;
const SMALL: u64 = 20 * MIB;
/// The maximum number of bytes that compaction is allowed to move for each byte that it frees.
const MOVED_MAX: f64 = 1.0;
/// The percentage of pages that are discarded at random.
const RANDOM_PERCENT: u32 = 97;
const RANDOM: &str = "random 97%";

/// Runs the experiment, by default for the source tree. Without a limit, the whole input is used.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source]) {
        let set = request.whole(input)?;
        let pages = set.load()?;
        let blobs = Blobs::of_pages(&pages)?;
        let mut stage = Stage::new(&pages, &blobs)?;
        stage.report("untar", report)?;
        for (step, pages) in directories(input, &set) {
            stage.discard(&pages)?;
            stage.report(&step, report)?;
        }
        stage.end("directories", report)?;
        let mut stage = Stage::new(&pages, &blobs)?;
        let mut rng = Rng::with_seed(request.seed);
        let all = 0..pages.len() / PAGE_SIZE;
        stage.discard(&all.filter(|_| rng.u32(0..100) < RANDOM_PERCENT).collect::<Vec<_>>())?;
        stage.report(RANDOM, report)?;
        stage.end(RANDOM, report)?;
    }
    Ok(())
}

/// Returns the pages of each directory, in the order of removal.
fn directories(input: Input, set: &PageSet) -> Vec<(String, Vec<usize>)> {
    let order = match input {
        Input::Source => REMOVAL_ORDER.map(str::to_owned).to_vec(),
        // The first directory of other inputs is not discarded, so that some data remain.
        _ => set.groups().into_iter().skip(1).collect(),
    };
    let pages_in = |name: &str| {
        let pages = set.spans_in(name).flat_map(|span| span.pages());
        pages.map(|page| page as usize).collect()
    };
    order.iter().map(|name| (format!("-{name}"), pages_in(name))).collect()
}

/// A uzram device and the kernel's zram, filled with the same pages.
struct Stage<'a> {
    pages: &'a AlignedBuf,
    blobs: &'a Blobs,
    ours: Device,
    kernel: Rival<KernelZram>,
    /// Whether each page is still on the devices.
    held: Vec<bool>,
    /// The time at which the last page was stored.
    filled: Instant,
}

impl<'a> Stage<'a> {
    fn new(pages: &'a AlignedBuf, blobs: &'a Blobs) -> Result<Stage<'a>, Error> {
        let bytes = pages.len() as u64;
        let ours = Device::new(Config::new(bytes)?)?;
        filled::write(&ours, pages)?;
        let kernel = KernelZram::acquire("lz4", bytes)?.try_map(|kernel| {
            kernel.write(0, pages, MIB as usize)?;
            Ok(kernel)
        })?;
        let held = vec![true; pages.len() / PAGE_SIZE];
        Ok(Stage { pages, blobs, ours, kernel, held, filled: Instant::now() })
    }

    fn discard(&mut self, pages: &[usize]) -> Result<(), Error> {
        for &page in pages {
            let (offset, len) = ((page * PAGE_SIZE) as u64, PAGE_SIZE as u64);
            self.ours.discard(offset, len)?;
            if let Rival::Present(kernel) = &self.kernel {
                kernel.discard(offset, len)?;
            }
            self.held[page] = false;
        }
        Ok(())
    }

    fn census(&self) -> Census {
        self.blobs.census((0..self.held.len()).filter(|&page| self.held[page]))
    }

    /// Reports the memory that the remaining data use.
    fn report(&self, step: &str, report: &mut Report<'_>) -> Result<(), Error> {
        settle();
        let census = self.census();
        let over = |used: u64| census.overhead_percent(used).unwrap_or(f64::NAN);
        let figure =
            |what: &str, value, unit| Figure::new(NAME, format!("{step}/{what}"), value, unit);
        report.add(figure("C by raw lz4", mebibytes(census.stored_bytes), "MiB"))?;
        let used = over(self.ours.mm_stat().mem_used_total);
        let kernel =
            self.kernel.as_ref().try_map(|kernel| Ok(over(kernel.mm_stat()?.mem_used_total)))?;
        let overhead = figure("overhead over C", used, "%").must(Bound::at_most(OVERHEAD_MAX));
        report.add(overhead.beside("kernel zram lz4", &kernel))?;
        let most = if census.stored_bytes < SMALL { ALL_MAX_SMALL } else { ALL_MAX };
        let all = figure("everything counted", over(self.ours.mem_total()), "%");
        report.add(all.must(Bound::at_most(most)))
    }

    /// Reports the work of compaction. Compacts the kernel's device, and reports its overhead.
    /// Verifies that the remaining pages are unchanged, and that the discarded pages read as zeros.
    fn end(&self, what: &str, report: &mut Report<'_>) -> Result<(), Error> {
        let figure =
            |name: &str, value, unit| Figure::new(NAME, format!("{what}/{name}"), value, unit);
        let (done, census) = (self.ours.compaction_stat(), self.census());
        let freed = self.blobs.census(0..self.held.len()).stored_bytes - census.stored_bytes;
        let moved = done.moved_bytes as f64 / freed as f64;
        let moved = figure("bytes moved over bytes freed", moved, "");
        report.add(moved.must(Bound::at_most(MOVED_MAX)))?;
        let (cpu, time) = (done.cpu.as_secs_f64(), self.filled.elapsed().as_secs_f64());
        report.add(figure("compaction's CPU time", cpu, "s"))?;
        report.add(figure("of one core", cpu / time * 100.0, "%"))?;
        if let Rival::Present(kernel) = &self.kernel {
            kernel.compact()?;
            let over = census.overhead_percent(kernel.mm_stat()?.mem_used_total);
            let name = "kernel's overhead over C after its compact";
            report.add(figure(name, over.unwrap_or(f64::NAN), "%"))?;
        }
        self.verify()
    }

    fn verify(&self) -> Result<(), Error> {
        let (mut back, zeros) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
        for (nth, page) in self.pages.chunks_exact(PAGE_SIZE).enumerate() {
            let offset = (nth * PAGE_SIZE) as u64;
            self.ours.read(offset, &mut back)?;
            let expected = if self.held[nth] { page } else { &zeros };
            Error::compare("our device", offset, expected, &back)?;
        }
        Ok(())
    }
}
