//! The experiments, by name.

mod fill;
mod parity;
mod removal;
mod rivals;
mod throughput;

use clap::ValueEnum;

use crate::Error;
use crate::inputs::{Cache, Input, PageSet};
use crate::report::Report;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// The kernel's zram on every input: overhead over the raw codec, write and read throughput.
    Rivals,
    /// Every input stored on our device and on the kernel's: overhead, and whether memory agrees with what is counted.
    Fill,
    /// The kernel's geometry in our allocator against the kernel's own.
    Parity,
    /// What is left of a source tree after most of it was dropped: overhead, beside the kernel's.
    Removal,
    /// Our device's writes and reads over the raw codec's, on one thread and on two.
    Throughput,
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
    /// The inputs to use.
    pub inputs: Vec<Input>,
}

impl Request {
    /// The pages of an input, as many as were asked for.
    pub fn pages(&self, input: Input) -> Result<PageSet, Error> {
        let limit = self.limit.unwrap_or(input.limit_default());
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
        match self {
            Experiment::Rivals => rivals::run(request, report),
            Experiment::Fill => fill::run(request, report),
            Experiment::Parity => parity::run(request, report),
            Experiment::Removal => removal::run(request, report),
            Experiment::Throughput => throughput::run(request, report),
            Experiment::All => {
                rivals::run(request, report)?;
                fill::run(request, report)?;
                parity::run(request, report)?;
                removal::run(request, report)?;
                throughput::run(request, report)
            }
        }
    }
}
