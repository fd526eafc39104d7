//! A source tree is stored, and directory after directory of it dropped, as the patch of 2014 had it: what is left takes
//! how much more than its compressed bytes? Then the same with pages dropped at random.

use std::thread::sleep;
use std::time::Duration;

use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::census::{Census, Kind};
use crate::codec::RawCodec;
use crate::filled;
use crate::inputs::{Input, REMOVAL_ORDER};
use crate::kernel::{KernelZram, Rival};
use crate::page::PAGE_SIZE;
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;

const NAME: &str = "removal";
/// How long after a removal the memory is looked at: compaction has as long.
const SETTLE: Duration = Duration::from_secs(1);
/// Percent over C after any removal.
const OVERHEAD_MAX: f64 = 2.5;
/// Percent over C that all memory may come to, and where little is left.
const ALL_MAX: f64 = 4.5;
const ALL_MAX_SMALL: f64 = 6.0;
const SMALL: u64 = 20 * MIB;

/// Of the source tree, whole unless a limit is given.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let set = Input::Source.open(&request.cache)?.capped(request.limit.unwrap_or(u64::MAX));
    let pages = set.load()?;
    let mut codec = RawCodec::lz4()?;
    let kinds: Vec<Kind> =
        pages.chunks(PAGE_SIZE).map(|page| Kind::of(page, &mut codec)).collect::<Result<_, _>>()?;

    let mut stage = Stage::new(&pages, &kinds)?;
    stage.report("untar", report)?;
    for group in REMOVAL_ORDER {
        for span in set.spans_in(group) {
            span.pages().try_for_each(|page| stage.drop_page(page as usize))?;
        }
        stage.report(&format!("-{group}"), report)?;
    }
    stage.compact_kernel(report)?;
    stage.verify(&pages)?;
    drop(stage);

    let mut stage = Stage::new(&pages, &kinds)?;
    let mut seed = request.seed;
    for page in 0..kinds.len() {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        if (seed >> 33) % 100 < 97 {
            stage.drop_page(page)?;
        }
    }
    stage.report("random 97%", report)?;
    stage.compact_kernel(report)?;
    stage.verify(&pages)
}

/// Both devices, and what is left on them.
struct Stage<'a> {
    ours: Device,
    kernel: Rival<KernelZram>,
    kinds: &'a [Kind],
    left: Vec<bool>,
}

impl<'a> Stage<'a> {
    fn new(pages: &crate::aligned::AlignedBuf, kinds: &'a [Kind]) -> Result<Stage<'a>, Error> {
        let ours = Device::new(Config::new(pages.len() as u64)?)?;
        filled::write(&ours, pages)?;
        let kernel = KernelZram::acquire("lz4", pages.len() as u64)?;
        if let Rival::Present(kernel) = &kernel {
            kernel.write(0, pages, MIB as usize)?;
        }
        Ok(Stage { ours, kernel, kinds, left: vec![true; kinds.len()] })
    }

    fn drop_page(&mut self, page: usize) -> Result<(), Error> {
        if !std::mem::take(&mut self.left[page]) {
            return Ok(());
        }
        let (offset, len) = ((page * PAGE_SIZE) as u64, PAGE_SIZE as u64);
        self.ours.discard(offset, len)?;
        if let Rival::Present(kernel) = &self.kernel {
            kernel.discard(offset, len)?;
        }
        Ok(())
    }

    /// What is left takes this much.
    fn report(&self, step: &str, report: &mut Report<'_>) -> Result<(), Error> {
        sleep(SETTLE);
        let census = self.census();
        let over = |used: u64| census.overhead_percent(used).unwrap_or(f64::NAN);
        let mebibytes = |bytes: u64| bytes as f64 / MIB as f64;
        let stored = Figure::new(
            NAME,
            format!("{step}/C by raw lz4"),
            mebibytes(census.stored_bytes),
            "MiB",
        );
        report.add(stored)?;
        let used = over(self.ours.mm_stat().mem_used_total);
        let overhead = Figure::new(NAME, format!("{step}/overhead over C"), used, "%");
        let overhead = overhead.must(Bound::at_most(OVERHEAD_MAX));
        report.add(match &self.kernel {
            Rival::Present(kernel) => {
                overhead.rival("kernel zram lz4", over(kernel.mm_stat()?.mem_used_total))
            }
            Rival::Absent(reason) => overhead.rival_absent(reason),
        })?;
        let most = if census.stored_bytes < SMALL { ALL_MAX_SMALL } else { ALL_MAX };
        let all = Figure::new(
            NAME,
            format!("{step}/everything counted"),
            over(self.ours.mem_total()),
            "%",
        );
        report.add(all.must(Bound::at_most(most)))
    }

    fn census(&self) -> Census {
        let mut census = Census::default();
        let left = self.kinds.iter().zip(&self.left).filter(|(_, left)| **left);
        left.for_each(|(kind, _)| census.add(*kind));
        census
    }

    /// The kernel compacts on demand only: how far does that bring it?
    fn compact_kernel(&self, report: &mut Report<'_>) -> Result<(), Error> {
        let Rival::Present(kernel) = &self.kernel else { return Ok(()) };
        kernel.compact()?;
        let over = self.census().overhead_percent(kernel.mm_stat()?.mem_used_total);
        let figure = "kernel's overhead over C after its compact";
        report.add(Figure::new(NAME, figure, over.unwrap_or(f64::NAN), "%"))
    }

    /// What is left reads back, and the rest as zeros.
    fn verify(&self, pages: &[u8]) -> Result<(), Error> {
        let mut back = vec![0; PAGE_SIZE];
        for (nth, page) in pages.chunks_exact(PAGE_SIZE).enumerate() {
            let offset = (nth * PAGE_SIZE) as u64;
            self.ours.read(offset, &mut back)?;
            let right =
                if self.left[nth] { back == page } else { back.iter().all(|&byte| byte == 0) };
            if !right {
                return Err(Error::Mismatch { device: "our device".into(), offset });
            }
        }
        Ok(())
    }
}
