//! A source tree in blocks of 16 KiB, whole and after most files were discarded: the memory of the
//! pages beyond the compressed bytes.

use fastrand::Rng;
use measure::page::PAGE_SIZE;
use zram::Device;

use super::{BLOCK, LZ4, Method, ZSTD, all_stored, settled};
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::experiments::Request;
use crate::filled::{verify, write};
use crate::inputs::{FileSpan, Input, PageSet, REMOVAL_ORDER};
use crate::report::{Bound, Figure, Report};
use crate::size::mebibytes;

const NAME: &str = "blocks-density";
/// The maximum overhead of the whole tree over C, in percent.
const OVERHEAD_MAX: f64 = 1.5;
/// The maximum overhead over C after most files were discarded, in percent.
const LEFT_MAX: f64 = 4.0;

/// Measures the input up to its limit. Then measures the whole tree after directories are
/// discarded, and on another device after each file is discarded with probability 1/2.
pub(in super::super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source]) {
        for method in [ZSTD, LZ4] {
            let named = |what: &str| format!("{}/{method}: {what}", input.name());
            let stage = Stage::new(&request.pages(input)?, method)?;
            stage.add(named("stored"), Some(OVERHEAD_MAX), report)?;
            drop(stage);

            let set = request.whole(input)?;
            let mut stage = Stage::new(&set, method)?;
            let directories: Vec<&str> = match input {
                Input::Source => REMOVAL_ORDER.to_vec(),
                // Keeps the first group of other inputs, so that some data remain.
                _ => set.groups().iter().map(String::as_str).skip(1).collect(),
            };
            let of_directories = directories.iter().flat_map(|name| set.spans_in(name));
            of_directories.into_iter().try_for_each(|file| stage.drop_file(file))?;
            stage.add(named("after the directories' removal"), Some(LEFT_MAX), report)?;
            drop(stage);

            let mut stage = Stage::new(&set, method)?;
            let mut rng = Rng::with_seed(request.seed);
            let some = set.spans().iter().filter(|_| rng.bool());
            some.into_iter().try_for_each(|file| stage.drop_file(file))?;
            stage.add(named("after the removal of every other file"), None, report)?;
        }
    }
    Ok(())
}

/// A device and its expected contents.
struct Stage {
    method: Method,
    pages: AlignedBuf,
    device: Device,
}

impl Stage {
    fn new(set: &PageSet, method: Method) -> Result<Stage, Error> {
        let pages = set.load()?;
        let device = method.device(pages.len(), BLOCK)?;
        write(&device, &pages)?;
        Ok(Stage { method, pages, device })
    }

    fn drop_file(&mut self, file: &FileSpan) -> Result<(), Error> {
        let start = file.first_page as usize * PAGE_SIZE;
        let len = file.page_count as usize * PAGE_SIZE;
        self.pages[start..start + len].fill(0);
        Ok(self.device.discard(start as u64, len as u64)?)
    }

    /// Reports the overhead over C of the blocks in their current state, in which the discarded
    /// parts of a block are zeros.
    fn add(&self, what: String, most: Option<f64>, report: &mut Report<'_>) -> Result<(), Error> {
        let used = settled(&self.device) as f64;
        verify(&self.device, &self.pages)?;
        let stored = all_stored(&self.pages, BLOCK, &mut self.method.raw(BLOCK)?)?;
        let over = (used / stored as f64 - 1.0) * 100.0;
        let figure = Figure::new(NAME, format!("{what}, overhead over C"), over, "%");
        report.add(match most {
            Some(most) => figure.must(Bound::at_most(most)),
            None => figure,
        })?;
        let told = format!("{what}, C by raw {}", self.method);
        report.add(Figure::new(NAME, told, mebibytes(stored), "MiB"))
    }
}
