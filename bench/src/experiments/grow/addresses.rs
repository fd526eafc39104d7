//! Address spaces whose addresses are all allocated, without committed pages. The figures are the
//! time to free and allocate an extent for a zspage, and the time to commit a page under a limit on
//! the total memory.
#![allow(unsafe_code)]

use std::sync::{Arc, OnceLock, Weak};

use fastrand::Rng;
use measure::clock::{Clock, Stopwatch};
use page::{EXTENT_PAGES_MAX, ExtentId, Request, Space, Supply};

use super::{Job, ROUNDS, SMALL, report_growth};
use crate::Error;
use crate::report::Report;
use crate::size::GIB;
use crate::turns::{each, in_turns};

/// The sizes of the larger address spaces in bytes. The first size is that of the largest pool. The
/// second size exceeds the memory of any machine.
const LARGE: [u64; 2] = [8 * GIB, 1024 * GIB];
/// The number of pages in a granule, as in a pool.
const GRANULE: u32 = 16;
/// The number of extents that are freed and allocated again. The number does not depend on the size
/// of the space, so all sizes use the processor's caches equally.
const WORKED_ON: usize = 64;

pub(super) fn run(job: &Job, report: &mut Report<'_>) -> Result<(), Error> {
    let sizes = SMALL.into_iter().chain(LARGE);
    let taken = sizes.map(Taken::new).collect::<Result<Vec<_>, _>>()?;
    let mut rngs = vec![Rng::with_seed(job.seed); taken.len()];
    let rounds = in_turns(taken.len(), ROUNDS, |nth| {
        let made = taken[nth].make(&mut rngs[nth], job.operations)?;
        Ok([made, taken[nth].commit(job.operations)?])
    })?;
    let [made, committed] = [0, 1].map(|cost| {
        let costs = rounds.iter().map(|rounds| each(rounds, |costs| costs[cost]));
        taken.iter().map(|taken| taken.bytes).zip(costs).collect::<Vec<_>>()
    });
    // The largest space is left out, because its check would take too long.
    taken.iter().filter(|taken| taken.bytes <= LARGE[0]).for_each(|taken| taken.space.check());
    report_growth("an extent given back and made, by addresses", &made, SMALL.len(), report)?;
    let what = "a page committed under a limit of all memory, by addresses";
    report_growth(what, &committed, SMALL.len(), report)
}

/// A supply that grants pages while the space uses less memory than a limit. A device has a similar
/// supply.
#[derive(Debug)]
struct Total {
    space: OnceLock<Weak<Space<()>>>,
    limit: usize,
}

impl Supply for Total {
    fn grant(&self, request: Request) -> bool {
        let Request::Commit { .. } = request else { return true };
        self.space.get().and_then(Weak::upgrade).is_none_or(|space| {
            let pages = space.budget().used() * page::page_size();
            pages + space.metadata_bytes() <= self.limit
        })
    }
}

/// A space in which every address belongs to an extent.
struct Taken {
    bytes: u64,
    space: Arc<Space<()>>,
    /// The extents that were allocated last.
    last: Vec<ExtentId>,
}

impl Taken {
    fn new(bytes: u64) -> Result<Taken, Error> {
        let total = Arc::new(Total { space: OnceLock::new(), limit: usize::MAX / 2 });
        let supply: Option<Arc<dyn Supply>> = Some(total.clone());
        let config = page::Config { granule: GRANULE, supply, ..page::Config::default() };
        let space = Arc::new(Space::new(config).map_err(zsmalloc::Error::from)?);
        let _ = total.space.set(Arc::downgrade(&space));
        let extents = bytes / (EXTENT_PAGES_MAX as usize * page::page_size()) as u64;
        let mut last = Vec::new();
        for nth in 0..extents {
            let id = space.alloc(EXTENT_PAGES_MAX, 0).map_err(zsmalloc::Error::from)?;
            if nth + WORKED_ON as u64 >= extents {
                last.push(id);
            }
        }
        Ok(Taken { bytes, space, last })
    }

    /// Returns the time in nanoseconds to free an extent and allocate one of the same size. The new
    /// extent must lie at the same address.
    fn make(&self, rng: &mut Rng, operations: u64) -> Result<f64, Error> {
        let order: Vec<_> = (0..operations).map(|_| self.last[rng.usize(..WORKED_ON)]).collect();
        let starts: Vec<_> = self.last.iter().map(|&id| self.space.extent(id).start()).collect();
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch.time(|| {
            order.iter().try_for_each(|&id| {
                // SAFETY: no thread accesses memory in this space, so the extent is not in use.
                unsafe { self.space.free(id) };
                let made = self.space.alloc(EXTENT_PAGES_MAX, 0).map_err(zsmalloc::Error::from)?;
                let [expected, found] = [id, made].map(|id| u64::from(id.to_raw()));
                Error::answer('A', expected, found)
            })
        })?;
        for (&id, &expected) in self.last.iter().zip(&starts) {
            Error::answer('A', expected, self.space.extent(id).start())?;
        }
        Ok(watch.seconds() * 1e9 / operations as f64)
    }

    /// Returns the time in nanoseconds to charge a page to the space's budget, and to grant it. The
    /// page is not touched.
    fn commit(&self, operations: u64) -> Result<f64, Error> {
        let before = self.space.budget().used() as u64;
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch
            .time(|| (0..operations).try_for_each(|_| self.space.charge(1)))
            .map_err(zsmalloc::Error::from)?;
        Error::answer('A', before + operations, self.space.budget().used() as u64)?;
        Ok(watch.seconds() * 1e9 / operations as f64)
    }
}
