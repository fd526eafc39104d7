//! A source tree is stored, and its directories are discarded one after the other, as in the patch
//! of 2014. The figures are the memory beyond the compressed bytes that remain. Random pages are
//! then discarded in the same way, and both are compared with allocators.

mod allocators;
mod stage;

use fastrand::Rng;

use super::Request;
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::contents::{Blobs, Contents};
use crate::inputs::{Input, PageSet, REMOVAL_ORDER};
use crate::report::Report;
use crate::size::MIB;
use stage::{Kernel, Stage};

const NAME: &str = "removal";
/// The maximum overhead of all memory over C, in percent: the usual maximum, and the maximum if C
/// is below `SMALL` bytes.
const ALL_MAX: f64 = 4.5;
const ALL_MAX_SMALL: f64 = 6.0;
const SMALL: u64 = 20 * MIB;
/// The percentage of pages that are discarded at random.
const RANDOM_PERCENT: u32 = 97;
const RANDOM: &str = "random 97%";

/// Runs the experiment for the source tree, whole unless a limit is given.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source]) {
        let set = request.whole(input)?;
        let removal = Removal::new(input, &set, request.seed)?;
        removal.by_directory(report)?;
        removal.at_random(report)?;
        removal.alone(report)?;
        allocators::run(&removal, report)?;
    }
    Ok(())
}

/// The stored pages, and the pages that are discarded, in the order of removal.
struct Removal {
    pages: AlignedBuf,
    blobs: Blobs,
    /// The pages of each directory, in the order of removal.
    directories: Vec<(String, Vec<u32>)>,
    random: Vec<u32>,
}

impl Removal {
    fn new(input: Input, set: &PageSet, seed: u64) -> Result<Removal, Error> {
        let pages = set.load()?;
        let blobs = Blobs::of_pages(&pages)?;
        let order: Vec<&str> = match input {
            Input::Source => REMOVAL_ORDER.to_vec(),
            // Keeps the first group of other inputs, so that some data remain.
            _ => set.groups().iter().map(String::as_str).skip(1).collect(),
        };
        let pages_in = |name| {
            let pages = set.spans_in(name).flat_map(|span| span.pages());
            pages.map(|page| page as u32).collect()
        };
        let directories = order.into_iter().map(|name| (format!("-{name}"), pages_in(name)));
        let directories = directories.collect();
        let mut rng = Rng::with_seed(seed);
        let random = (0..blobs.len()).filter(|_| rng.u32(0..100) < RANDOM_PERCENT).collect();
        Ok(Removal { pages, blobs, directories, random })
    }

    /// Returns the maximum overhead of all memory over C, in percent, if C is `stored`.
    fn all_max(stored: u64) -> f64 {
        if stored < SMALL { ALL_MAX_SMALL } else { ALL_MAX }
    }

    fn by_directory(&self, report: &mut Report<'_>) -> Result<(), Error> {
        let mut stage = Stage::new(self, Kernel::Beside)?;
        stage.report("untar", Removal::all_max, report)?;
        for (step, pages) in &self.directories {
            stage.drop_pages(pages)?;
            stage.report(step, Removal::all_max, report)?;
        }
        stage.report_effort("directories", report)?;
        stage.compact_kernel("directories", report)?;
        stage.verify()
    }

    fn at_random(&self, report: &mut Report<'_>) -> Result<(), Error> {
        let mut stage = Stage::new(self, Kernel::Beside)?;
        stage.drop_pages(&self.random)?;
        stage.report(RANDOM, |_| ALL_MAX_SMALL, report)?;
        stage.report_effort(RANDOM, report)?;
        stage.compact_kernel(RANDOM, report)?;
        stage.verify()
    }

    /// Repeats the removals without the kernel's device, whose memory is also part of the machine's
    /// memory.
    fn alone(&self, report: &mut Report<'_>) -> Result<(), Error> {
        let mut stage = Stage::new(self, Kernel::Absent)?;
        self.directories.iter().try_for_each(|(_, pages)| stage.drop_pages(pages))?;
        stage.report_machine("directories", report)?;
        drop(stage);
        let mut stage = Stage::new(self, Kernel::Absent)?;
        stage.drop_pages(&self.random)?;
        stage.report_machine(RANDOM, report)
    }
}
