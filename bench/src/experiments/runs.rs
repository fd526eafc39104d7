//! uzram's lz4 codec decompresses pages that consist of noise and of one run of repeated bytes. For
//! comparison, the lz4 library compresses and decompresses the same pages. The experiment fails if
//! one kind of page takes much longer than another kind.

mod library;

use crate::codec::RawCodec;
use fastrand::Rng;
use measure::clock::{Clock, Stopwatch};
use measure::page::PAGE_SIZE;

use super::Request;
use crate::Error;
use crate::report::{Bound, Figure, Report};
use crate::summary::median;
use crate::turns::in_turns;

const NAME: &str = "runs";
const PAGES: usize = 64;
const ROUNDS: u64 = 15;
/// The number of times that a round decompresses each page.
const REPEATS: u64 = 100;
/// The maximum ratio of the slowest kind's time to the fastest kind's.
const SPREAD_MAX: f64 = 2.5;

/// A kind of page: noise that contains one run.
struct Kind {
    name: &'static str,
    /// The number of bytes before the run.
    before: usize,
    run: usize,
    /// The run's period in bytes; 0 stands for a run of zeros.
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

/// A function that decompresses a block to a page.
type Decompress<'a> = &'a mut dyn FnMut(&[u8], &mut [u8]) -> Result<(), Error>;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let mut codec = RawCodec::lz4()?;
    let mut random = Rng::with_seed(request.seed);
    let repeats = request.operations.unwrap_or(REPEATS);
    let mut all = [Vec::new(), Vec::new()];
    for kind in &KINDS {
        let pages: Vec<_> = (0..PAGES).map(|_| kind.page(&mut random)).collect();
        let times = times(&mut codec, &pages, repeats)?;
        let [ours, library] = times.map(|seconds| seconds * 1e9 / (repeats * PAGES as u64) as f64);
        let name = format!("noise and {}", kind.name);
        report.add(Figure::new(NAME, name, ours, "ns").rival("the library alone", library))?;
        all.iter_mut().zip([ours, library]).for_each(|(all, time)| all.push(time));
    }
    let [ours, library] = all.map(|times| {
        let max = times.iter().copied().fold(f64::NAN, f64::max);
        max / times.into_iter().fold(f64::NAN, f64::min)
    });
    let figure = Figure::new(NAME, "slowest kind over fastest", ours, "");
    report.add(figure.must(Bound::at_most(SPREAD_MAX)).rival("the library alone", library))
}

/// Returns the median seconds to decompress all pages, by uzram's codec and by the library.
fn times(codec: &mut RawCodec, pages: &[Vec<u8>], repeats: u64) -> Result<[f64; 2], Error> {
    let ours = pages.iter().map(|page| Ok(codec.compress(page)?.to_vec()));
    let blocks = [
        ours.collect::<Result<Vec<_>, Error>>()?,
        pages.iter().map(|page| library::compressed(page)).collect(),
    ];
    let mut back = vec![0; PAGE_SIZE];
    let seconds = in_turns(2, ROUNDS, |side| {
        let mut own = |block: &[u8], page: &mut [u8]| Ok(codec.decompress(block, page)?);
        let decompress: Decompress<'_> =
            if side == 0 { &mut own } else { &mut library::decompress };
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch.time(|| {
            let mut all = || blocks[side].iter().try_for_each(|block| decompress(block, &mut back));
            (0..repeats).try_for_each(|_| all())
        })?;
        for (block, page) in blocks[side].iter().zip(pages) {
            decompress(block, &mut back)?;
            Error::compare("lz4", 0, page, &back)?;
        }
        Ok(watch.seconds())
    })?;
    Ok([0, 1].map(|side| median(&seconds[side])))
}
