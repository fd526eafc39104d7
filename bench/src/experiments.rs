//! The experiments, by name.

mod analyze;
pub(crate) mod blocks;
mod churn;
mod cold;
mod compared;
mod density;
mod fill;
mod grow;
mod malloc;
mod parity;
mod pause;
pub mod python;
mod removal;
mod rivals;
pub mod run;
mod runs;
pub mod serve;
pub mod slab;
mod sparse;
mod table;
mod throughput;
pub mod zmem;

use clap::ValueEnum;

use crate::Error;
use crate::inputs::{Cache, Input, PageSet};
use crate::report::Report;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// The kernel's zram on every input: overhead over the raw codec, write and read throughput.
    Rivals,
    /// Every input stored on our device and on the kernel's: overhead, and whether memory agrees
    /// with what is counted.
    Fill,
    /// The kernel's geometry in our allocator against the kernel's own.
    Parity,
    /// What is left of a source tree after most of it was dropped: overhead, beside the kernel's.
    Removal,
    /// The whole source tree stored on our device: overhead, beside the kernel's, and the machine's
    /// memory.
    Density,
    /// Random overwriting of a full device and a full pool: memory, bytes moved, throughput, beside
    /// the allocators.
    Churn,
    /// The slowest reads while compaction is at work, over those without it.
    Pause,
    /// Our pool's store and free over malloc, copy and free; its read over a copy; two threads over
    /// one.
    Malloc,
    /// Our device's writes and reads over the raw codec's and the kernel's, on one thread and on
    /// two.
    Throughput,
    /// Pages of noise and runs: times to decompress them by lz4, and the slowest over the fastest.
    Runs,
    /// What a slot of our device costs beside its data.
    Table,
    /// A device of 16 TiB that holds a gibibyte, page by page, anywhere.
    Sparse,
    /// The device: throughput, table and sparse.
    Zram,
    /// Object caches: slabs as SLAB had them, ours beside the allocators, messages between threads.
    Slab,
    /// Blocks of 4, 16 and 64 KiB: memory over what the raw codec makes of them.
    BlocksRatio,
    /// Blocks of 16 KiB written and read whole: time over blocks of 4 KiB, beside the raw codec's.
    BlocksCpu,
    /// Pages of blocks of 16 KiB read and written: time and memory over blocks of 4 KiB.
    BlocksPartial,
    /// A source tree in blocks of 16 KiB, and what is left of it after most was dropped: overhead.
    BlocksDensity,
    /// Blocks of several pages: the last four.
    Blocks,
    /// Our NBD server, beside nbdkit's memory plugin: fio and nbdcopy.
    Nbd,
    /// A file system on our mounted device, beside one on the kernel's zram.
    Fuse,
    /// The device as a disk for others: nbd and fuse.
    Serve,
    /// What `uzram analyze` forecasts from a sample, against what a device takes.
    Analyze,
    /// Cold data recompressed, written back, saved and restored, over raw codecs, dd, pread and cp.
    Cold,
    /// Costs that must not grow with what is stored: a new zspage, a commit under a limit of all
    /// memory, a store at the limit.
    Grow,
    /// Memory that goes out compressed and comes back when touched, beside the kernel's swap.
    Zmem,
    /// A CPython job under `uzram run` at two limits, beside the kernel's swap in a cgroup.
    RunHeap,
    /// Other programs under `uzram run` with a third to two thirds of their memory, beside the
    /// kernel's swap.
    RunJobs,
    /// Programs under `uzram run` where memory suffices, beside the same without it.
    RunOverhead,
    /// A table of programs under `uzram run` at half of their memory: same output, limit kept.
    RunPrograms,
    /// Programs under `uzram run`: the last four.
    Run,
    /// A numpy array three times its limit in the Python package's `Region`, over plain memory and
    /// beside `numpy.memmap`.
    PythonColumns,
    /// The package's `Device` by 64 KiB a call, over the same calls in Rust; two threads over one.
    PythonCalls,
    /// JSON documents in the package's `Cache`, over a dict of bytes, beside zlib and diskcache.
    PythonDocuments,
    /// The Python package: the last three.
    Python,
    /// All of them.
    All,
}

/// What a run was asked for.
#[derive(Debug)]
pub struct Request {
    /// Where inputs are kept.
    pub cache: Cache,
    /// Whatever is drawn by chance is drawn from it.
    pub seed: u64,
    /// Most bytes taken of each input; `None` leaves it to the input.
    pub limit: Option<u64>,
    /// Operations of an experiment that repeats one; `None` leaves it to the experiment.
    pub operations: Option<u64>,
    /// The inputs to use; none leaves it to the experiment.
    pub inputs: Vec<Input>,
    /// The programs to run, by their names in figures; none leaves it to the experiment.
    pub programs: Vec<String>,
}

impl Request {
    /// The inputs that were asked for, or else `default`.
    pub fn inputs(&self, default: &[Input]) -> Vec<Input> {
        if self.inputs.is_empty() { default.to_vec() } else { self.inputs.clone() }
    }

    /// The pages of an input, as many as were asked for, or else as is usual for it.
    pub fn pages(&self, input: Input) -> Result<PageSet, Error> {
        self.pages_within(input, input.limit_default())
    }

    /// The pages of an input, all of them unless fewer were asked for.
    pub fn whole(&self, input: Input) -> Result<PageSet, Error> {
        self.pages_within(input, u64::MAX)
    }

    fn pages_within(&self, input: Input, limit: u64) -> Result<PageSet, Error> {
        let limit = self.limit.unwrap_or(limit);
        let pages = input.open(&self.cache)?.capped(limit);
        if pages.page_count() == 0 {
            let reason = format!("the input {} has no page within {limit} bytes", input.name());
            return Err(Error::Setup { reason, remedy: "give a larger --limit" });
        }
        Ok(pages)
    }
}

impl Experiment {
    /// Measures, and adds what comes out.
    pub fn run(self, request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
        let run = match self {
            Experiment::Rivals => rivals::run,
            Experiment::Fill => fill::run,
            Experiment::Parity => parity::run,
            Experiment::Density => density::run,
            Experiment::Pause => pause::run,
            Experiment::Removal => removal::run,
            Experiment::Churn => churn::run,
            Experiment::Malloc => malloc::run,
            Experiment::Throughput => throughput::run,
            Experiment::Runs => runs::run,
            Experiment::Table => table::run,
            Experiment::Sparse => sparse::run,
            Experiment::Zram => zram,
            Experiment::Slab => slab::run,
            Experiment::BlocksRatio => blocks::ratio::run,
            Experiment::BlocksCpu => blocks::cpu::run,
            Experiment::BlocksPartial => blocks::partial::run,
            Experiment::BlocksDensity => blocks::density::run,
            Experiment::Blocks => blocks::run,
            Experiment::Nbd => serve::nbd,
            Experiment::Fuse => serve::fuse,
            Experiment::Serve => serve,
            Experiment::Analyze => analyze::run,
            Experiment::Cold => cold::run,
            Experiment::Grow => grow::run,
            Experiment::Zmem => zmem::run,
            Experiment::RunHeap => run::heap,
            Experiment::RunJobs => run::jobs,
            Experiment::RunOverhead => run::overhead,
            Experiment::RunPrograms => run::programs,
            Experiment::Run => run::run,
            Experiment::PythonColumns => python::columns,
            Experiment::PythonCalls => python::calls,
            Experiment::PythonDocuments => python::documents,
            Experiment::Python => python::run,
            Experiment::All => all,
        };
        run(request, report)
    }
}

fn all(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let groups = [
        Experiment::All,
        Experiment::Zram,
        Experiment::Blocks,
        Experiment::Serve,
        Experiment::Run,
        Experiment::Python,
    ];
    let each = Experiment::value_variants().iter();
    each.filter(|one| !groups.contains(one)).try_for_each(|one| one.run(request, report))
}

fn zram(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    [throughput::run, table::run, sparse::run].iter().try_for_each(|run| run(request, report))
}

fn serve(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    [serve::nbd, serve::fuse].iter().try_for_each(|run| run(request, report))
}
