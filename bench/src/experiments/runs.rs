//! Pages of noise and runs decompressed by uzram's lz4, compared with the library's decoder and the
//! library's own blocks. No kind of page may be much slower than another.

mod library;

use crate::codec::RawCodec;
use fastrand::Rng;
use measure::clock::{Clock, Stopwatch};
use measure::page::PAGE_SIZE;

use super::Request;
use crate::Error;
use crate::report::{Bound, Figure, Report};
use crate::summary::Summary;

const NAME: &str = "runs";
const PAGES: usize = 64;
const ROUNDS: usize = 15;
/// The number of times that a round decompresses each page.
const REPEATS: u64 = 100;
/// The maximum ratio of the slowest kind's time to the fastest kind's.
const SPREAD_MAX: f64 = 2.5;

/// A kind of page: noise except for a run.
struct Kind {
    name: &'static str,
    /// The bytes before the run.
    before: usize,
    run: usize,
    /// The run's period in bytes; 0 is a run of zeros.
    period: usize,
}

const RUN: usize = PAGE_SIZE * 3 / 5;
const KINDS: [Kind; 6] = [
    Kind { name: "zeros to the end", before: PAGE_SIZE - RUN, run: RUN, period: 0 },
    Kind { name: "zeros at the beginning", before: 0, run: RUN, period: 0 },
    Kind { name: "fewer zeros to the end", before: RUN, run: PAGE_SIZE - RUN, period: 0 },
    Kind { name: "64 bytes repeated to the end", before: PAGE_SIZE - RUN, run: RUN, period: 64 },
    Kind { name: "zeros in the middle", before: 800, run: RUN, period: 0 },
    Kind { name: "a word repeated to the end", before: PAGE_SIZE - RUN, run: RUN, period: 4 },
];

impl Kind {
    fn page(&self, random: &mut Rng) -> Vec<u8> {
        let mut page: Vec<u8> = (0..PAGE_SIZE).map(|_| random.u8(..)).collect();
        let end = self.before + self.run;
        match self.period {
            0 => page[self.before..end].fill(0),
            period => (self.before + period..end).for_each(|at| page[at] = page[at - period]),
        }
        page
    }
}

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let mut codec = RawCodec::lz4()?;
    let mut random = Rng::with_seed(request.seed);
    let repeats = request.operations.unwrap_or(REPEATS);
    let (mut ours, mut library) = (Vec::new(), Vec::new());
    for kind in &KINDS {
        let pages: Vec<_> = (0..PAGES).map(|_| kind.page(&mut random)).collect();
        let [our_ns, library_ns] = times(&mut codec, &pages, repeats)?;
        let name = format!("noise and {}", kind.name);
        report.add(Figure::new(NAME, name, our_ns, "ns").rival("the library alone", library_ns))?;
        ours.push(our_ns);
        library.push(library_ns);
    }
    if let (Some(ours), Some(library)) = (Summary::of(&ours), Summary::of(&library)) {
        let spread = |all: Summary| all.max / all.min;
        let figure = Figure::new(NAME, "slowest kind over fastest", spread(ours), "");
        let figure = figure.must(Bound::at_most(SPREAD_MAX));
        report.add(figure.rival("the library alone", spread(library)))?;
    }
    Ok(())
}

/// Returns the median nanoseconds to decompress a page, by uzram's codec and by the library.
fn times(codec: &mut RawCodec, pages: &[Vec<u8>], repeats: u64) -> Result<[f64; 2], Error> {
    let ours = pages.iter().map(|page| Ok(codec.compress(page)?.to_vec()));
    let ours: Vec<Vec<u8>> = ours.collect::<Result<_, Error>>()?;
    let library: Vec<Vec<u8>> = pages.iter().map(|page| library::compressed(page)).collect();
    let our_ns = median(&ours, pages, repeats, |block, page| {
        codec.decompress(block, page).map_err(Error::from)
    })?;
    Ok([our_ns, median(&library, pages, repeats, library::decompress)?])
}

/// Returns the median nanoseconds that `decompress` takes for one of the blocks.
fn median(
    blocks: &[Vec<u8>],
    pages: &[Vec<u8>],
    repeats: u64,
    mut decompress: impl FnMut(&[u8], &mut [u8]) -> Result<(), Error>,
) -> Result<f64, Error> {
    let mut back = vec![0; PAGE_SIZE];
    for (block, page) in blocks.iter().zip(pages) {
        decompress(block, &mut back)?;
        if back != *page {
            return Err(Error::Mismatch { device: "lz4".into(), offset: 0 });
        }
    }
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch.time(|| {
            (0..repeats)
                .try_for_each(|_| blocks.iter().try_for_each(|block| decompress(block, &mut back)))
        })?;
        rounds.push(watch.seconds() * 1e9 / (repeats * PAGES as u64) as f64);
    }
    Ok(Summary::of(&rounds).map_or(0.0, |rounds| rounds.median))
}
