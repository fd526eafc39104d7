//! Our device's writes and reads over the raw codec's, lz4, in process. Both sides do the same pages in turns of a few
//! milliseconds, so that what disturbs one disturbs the other.

use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::codec::RawCodec;
use crate::contents::{Blobs, Contents};
use crate::inputs::Input;
use crate::page::{PAGE_SIZE, first_difference, same_filled};
use crate::pairing::{Clock, Paired, Stopwatch, paired};
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;
use crate::threads::together;

const NAME: &str = "throughput";
const ROUNDS: usize = 7;
/// Pages done by one side before it is the other's turn.
const TURN: usize = 1024;
/// Pages of a request.
const REQUESTS: [usize; 2] = [1, 16];
/// Bytes of each input that are stored, where nothing else is asked for.
const LIMIT: u64 = 256 * MIB;

/// Every input, one after the other.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&Input::ALL) {
        let pages = request.pages(input)?.capped(request.limit.unwrap_or(LIMIT)).load()?;
        // Same-filled pages cost neither side a codec's work: they are another experiment.
        let stored: Vec<&[u8]> =
            pages.chunks_exact(PAGE_SIZE).filter(|page| same_filled(page).is_none()).collect();
        let work = Work::new(stored.concat())?;
        work.check()?;
        for pages_per_request in REQUESTS {
            work.one_thread(input.name(), pages_per_request, report)?;
        }
        work.scaling(input.name(), report)?;
    }
    Ok(())
}

/// Pages, what the raw codec makes of them, and a device that holds them.
struct Work {
    pages: Vec<u8>,
    compressed: Blobs,
    device: Device,
}

/// What a side does to a turn's pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Write,
    Read,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Write => "overwriting",
            Direction::Read => "reading",
        }
    }

    /// What our device must reach of the raw codec's throughput.
    fn must(self) -> Bound {
        match self {
            Direction::Write => Bound::at_least(0.85),
            Direction::Read => Bound::at_least(0.75),
        }
    }
}

impl Work {
    fn new(pages: Vec<u8>) -> Result<Work, Error> {
        let mut codec = RawCodec::lz4()?;
        let mut compressed = Blobs::default();
        for page in pages.chunks_exact(PAGE_SIZE) {
            compressed.push(codec.compress(page)?);
        }
        let device = Device::new(Config::new(pages.len() as u64)?)?;
        device.write(0, &pages)?;
        Ok(Work { pages, compressed, device })
    }

    fn count(&self) -> usize {
        self.compressed.len() as usize
    }

    /// Both sides give the pages back.
    fn check(&self) -> Result<(), Error> {
        let mut codec = RawCodec::lz4()?;
        let mut back = vec![0; PAGE_SIZE];
        for (nth, page) in self.pages.chunks_exact(PAGE_SIZE).enumerate() {
            let offset = (nth * PAGE_SIZE) as u64;
            self.device.read(offset, &mut back)?;
            let ours = first_difference(page, &back);
            codec.decompress(self.compressed_page(nth), &mut back)?;
            if ours.or(first_difference(page, &back)).is_some() {
                return Err(Error::Mismatch { device: "our device".into(), offset });
            }
        }
        Ok(())
    }

    fn compressed_page(&self, nth: usize) -> &[u8] {
        self.compressed.get(nth as u32)
    }

    /// The raw codec does pages `range`.
    fn raw(
        &self,
        direction: Direction,
        range: std::ops::Range<usize>,
        codec: &mut RawCodec,
        back: &mut [u8],
    ) -> Result<(), Error> {
        for nth in range {
            match direction {
                Direction::Write => {
                    codec.compress(&self.pages[nth * PAGE_SIZE..][..PAGE_SIZE])?;
                }
                Direction::Read => {
                    codec.decompress(self.compressed_page(nth), &mut back[..PAGE_SIZE])?;
                }
            }
        }
        Ok(())
    }

    /// Our device does pages `range`, `each` of them a request.
    fn ours(
        &self,
        direction: Direction,
        range: std::ops::Range<usize>,
        each: usize,
        back: &mut [u8],
    ) -> Result<(), Error> {
        let mut nth = range.start;
        while nth < range.end {
            let len = each.min(range.end - nth) * PAGE_SIZE;
            let at = nth * PAGE_SIZE;
            match direction {
                Direction::Write => self.device.write(at as u64, &self.pages[at..at + len])?,
                Direction::Read => self.device.read(at as u64, &mut back[..len])?,
            }
            nth += each;
        }
        Ok(())
    }

    /// All pages once by each side, in turns; the seconds of each.
    fn round(&self, direction: Direction, each: usize) -> Result<(f64, f64), Error> {
        let mut codec = RawCodec::lz4()?;
        let mut back = vec![0; each * PAGE_SIZE];
        let (mut raw, mut ours) = (Stopwatch::new(Clock::Wall), Stopwatch::new(Clock::Wall));
        for turn in 0..self.count().div_ceil(TURN) {
            let range = turn * TURN..(turn * TURN + TURN).min(self.count());
            for side in 0..2 {
                // Whoever comes second finds the pages in the cache: take turns at that too.
                if (turn + side) % 2 == 0 {
                    raw.time(|| self.raw(direction, range.clone(), &mut codec, &mut back))?;
                } else {
                    ours.time(|| self.ours(direction, range.clone(), each, &mut back))?;
                }
            }
        }
        Ok((raw.seconds(), ours.seconds()))
    }

    fn one_thread(&self, input: &str, each: usize, report: &mut Report<'_>) -> Result<(), Error> {
        for direction in [Direction::Write, Direction::Read] {
            self.round(direction, each)?;
            let (mut raw, mut ours) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let seconds = self.round(direction, each)?;
                raw.push(seconds.0);
                ours.push(seconds.1);
            }
            self.check()?;
            let Paired { a, b, ratio } = paired(&raw, &ours)?;
            let what = format!("{input}/{} by {} KiB", direction.name(), each * 4);
            let share = Figure::new(NAME, format!("{what}, ours over raw lz4"), ratio.median, "");
            report.add(share.must(direction.must()))?;
            let rate = |seconds: f64| self.pages.len() as f64 / 1e6 / seconds;
            let figure = Figure::new(NAME, what, rate(b.median), "MB/s");
            report.add(figure.rival("raw lz4", rate(a.median)))?;
        }
        Ok(())
    }

    /// Seconds for all pages, shared out to `threads` threads.
    fn on_threads(&self, side: Side, direction: Direction, threads: usize) -> Result<f64, Error> {
        let share = self.count() / threads;
        let done = together(threads, |index| {
            let mut codec = RawCodec::lz4()?;
            let mut back = vec![0; PAGE_SIZE];
            let range = index * share..(index + 1) * share;
            match side {
                Side::Raw => self.raw(direction, range, &mut codec, &mut back),
                Side::Ours => self.ours(direction, range, 1, &mut back),
            }
        })?;
        Ok(done.seconds)
    }

    /// Throughput of two threads over one's, ours over the raw codec's.
    fn scaling(&self, input: &str, report: &mut Report<'_>) -> Result<(), Error> {
        for direction in [Direction::Write, Direction::Read] {
            let scale = |side| -> Result<f64, Error> {
                let one = self.on_threads(side, direction, 1)?;
                Ok(one / self.on_threads(side, direction, 2)?)
            };
            let (mut raw, mut ours) = (Vec::new(), Vec::new());
            for round in 0..=ROUNDS {
                let sides = (scale(Side::Raw)?, scale(Side::Ours)?);
                // The first round warms up.
                if round > 0 {
                    raw.push(sides.0);
                    ours.push(sides.1);
                }
            }
            self.check()?;
            let compared = paired(&ours, &raw)?;
            let what = format!("{input}/two threads {}, scaling over raw lz4's", direction.name());
            let figure = Figure::new(NAME, what, compared.ratio.median, "");
            let figure = figure.must(Bound::at_least(0.9));
            report.add(figure.rival("raw lz4's scaling", compared.b.median))?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Side {
    Raw,
    Ours,
}
