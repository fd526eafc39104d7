//! The experiments, by name.

mod analyze;
mod blocks_ratio;
mod fill;
mod grow;
mod lru;
mod removal;
pub mod run;
mod runs;
pub mod serve;
mod sparse;
mod throughput;
pub mod zmem;

use clap::ValueEnum;

use crate::Error;
use crate::inputs::{Cache, Input, PageSet};
use crate::report::Report;

/// The experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// A uzram device and the kernel's zram with every input: overhead, and counted memory relative
    /// to used memory
    Fill,
    /// The whole source tree, whose directories are discarded one by one: overhead, compared with
    /// the kernel's zram
    Removal,
    /// Writes and reads of a uzram device relative to the raw codec and the kernel's zram, on one
    /// thread and on two
    Throughput,
    /// Pages of noise and repeated bytes: the time of lz4 to decompress the slowest kind of page,
    /// relative to the fastest kind
    Runs,
    /// The memory that a uzram device uses for each slot besides the data, for slots in order and
    /// for slots scattered over 16 TiB
    Sparse,
    /// The experiments throughput and sparse
    Zram,
    /// Blocks of 4, 16 and 64 KiB: memory relative to the output of the raw codec
    BlocksRatio,
    /// uzram's NBD server compared with nbdkit's memory plugin: fio and nbdcopy
    Nbd,
    /// A file system on a mounted uzram device compared with one on the kernel's zram
    Fuse,
    /// The device as a disk for other programs: the experiments nbd and fuse
    Serve,
    /// The forecast of `uzram analyze` from a sample, compared with the memory of a device
    Analyze,
    /// Costs that must not grow with the stored data: allocating a zspage, committing a page under
    /// a limit on the total memory, and storing at the limit
    Grow,
    /// Memory that is evicted and filled again on access, compared with the kernel's swap
    Zmem,
    /// JSON documents in an `LruCache`, compared with moka and quick_cache: the number of documents
    /// in the same memory, and gets per second
    Lru,
    /// A CPython job under `uzram run` at two limits, compared with the kernel's swap in a cgroup
    RunHeap,
    /// Other programs under `uzram run` with a third to four fifths of their memory, compared with
    /// the kernel's swap
    RunJobs,
    /// Programs under `uzram run` with enough memory, compared with the same programs run alone
    RunOverhead,
    /// A table of programs under `uzram run` at half of their memory: whether the output is equal
    /// and the limit is kept
    RunPrograms,
    /// Programs under `uzram run`: the four experiments run-heap, run-jobs, run-overhead and
    /// run-programs
    Run,
    /// All experiments
    All,
}

/// The settings of a run.
#[derive(Debug)]
pub struct Request {
    /// The directory of the inputs.
    pub cache: Cache,
    /// The seed of all random choices.
    pub seed: u64,
    /// The maximum number of bytes of each input that are used; `None` stands for the input's
    /// default.
    pub limit: Option<u64>,
    /// The number of repetitions in an experiment that repeats an operation; `None` stands for the
    /// experiment's default.
    pub operations: Option<u64>,
    /// The inputs to use. If the list is empty, the experiment uses its default inputs.
    pub inputs: Vec<Input>,
    /// The programs to run, by their names in figures. If the list is empty, the experiment runs
    /// its default programs.
    pub programs: Vec<String>,
}

impl Request {
    /// Returns the requested inputs, or `default` if none were requested.
    pub fn inputs(&self, default: &[Input]) -> Vec<Input> {
        if self.inputs.is_empty() { default.to_vec() } else { self.inputs.clone() }
    }

    /// Returns the pages of `input`, up to the requested limit or else the input's default limit.
    pub fn pages(&self, input: Input) -> Result<PageSet, Error> {
        self.pages_within(input, input.limit_default())
    }

    /// Returns all pages of `input`, or as many as the requested limit permits.
    pub fn whole(&self, input: Input) -> Result<PageSet, Error> {
        self.pages_within(input, u64::MAX)
    }

    /// Returns true if the program `name` is to be run.
    fn wants(&self, name: &str) -> bool {
        self.programs.is_empty() || self.programs.iter().any(|wanted| wanted == name)
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
    /// Runs the experiment and adds its figures to the report.
    pub fn run(self, request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
        let run = match self {
            Experiment::Fill => fill::run,
            Experiment::Removal => removal::run,
            Experiment::Throughput => throughput::run,
            Experiment::Runs => runs::run,
            Experiment::Sparse => sparse::run,
            Experiment::Zram => zram,
            Experiment::BlocksRatio => blocks_ratio::run,
            Experiment::Nbd => serve::nbd,
            Experiment::Fuse => serve::fuse,
            Experiment::Serve => serve,
            Experiment::Analyze => analyze::run,
            Experiment::Grow => grow::run,
            Experiment::Zmem => zmem::run,
            Experiment::Lru => lru::run,
            Experiment::RunHeap => run::heap,
            Experiment::RunJobs => run::jobs,
            Experiment::RunOverhead => run::overhead,
            Experiment::RunPrograms => run::programs,
            Experiment::Run => run::run,
            Experiment::All => all,
        };
        run(request, report)
    }
}

fn all(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let groups = [Experiment::All, Experiment::Zram, Experiment::Serve, Experiment::Run];
    let each = Experiment::value_variants().iter();
    each.filter(|one| !groups.contains(one)).try_for_each(|one| one.run(request, report))
}

fn zram(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    [throughput::run, sparse::run].iter().try_for_each(|run| run(request, report))
}

fn serve(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    [serve::nbd, serve::fuse].iter().try_for_each(|run| run(request, report))
}
