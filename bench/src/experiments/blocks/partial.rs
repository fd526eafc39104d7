//! Single pages of 16 KiB blocks read and written: the time and the final memory relative to blocks
//! of 4 KiB.

use super::bed::{Access, BLOCK_PAGES, Bed, Blocks, Piece, SIDES, Side};
use super::{LZ4, Method, ZSTD, median, median_of, settled};
use crate::Error;
use crate::experiments::Request;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;

const NAME: &str = "blocks-partial";
const ROUNDS: usize = 5;
/// The number of pages that one side processes in a turn.
const TURN: usize = 1024;
/// The number of pages that the raw codec compresses in a round of writes; the output is not
/// stored.
const SAMPLE: usize = 4096;
/// The number of bytes of the input that are stored by default, and the number of these bytes that
/// are overwritten.
const LIMIT: u64 = 256 * MIB;
const WRITTEN: usize = 64 << 20;
/// The number of times that all pages are overwritten by default.
const OVERWRITES: u64 = 10;
/// The percentage of requests for a single page in the series' mix.
const PERCENT_PARTIAL: u32 = 10;

const IN_ORDER_MAX: f64 = 1.0;
const MIXED_MAX: f64 = 0.9;
const RANDOM_OVER_RAW_MAX: f64 = 1.1;
const WRITE_MAX: f64 = 1.5;
const MEMORY_MAX: f64 = 1.05;

/// Checks the figures of the series' codec and reports the figures of the other codec.
pub(in super::super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Heap]) {
        let pages = request.pages(input)?.capped(request.limit.unwrap_or(LIMIT)).load()?;
        let written = &pages[..pages.len().min(WRITTEN)];
        for method in [ZSTD, LZ4] {
            let part = |pages, nth| Part::new(pages, input, method, request.seed.wrapping_add(nth));
            let mut read = part(&pages, 0)?;
            read.reads(report)?;
            drop(read);
            let mut rows = Vec::new();
            for nth in 1..=ROUNDS as u64 {
                let mut part = part(written, nth)?;
                rows.push(part.overwrite(request.operations)?);
                if nth == ROUNDS as u64 {
                    part.writes(&rows, report)?;
                }
            }
        }
    }
    Ok(())
}

/// Devices that are read and written, and the names for their figures.
struct Part {
    bed: Bed,
    input: Input,
    method: Method,
}

/// The results of overwriting fresh devices: ratios of the time with large blocks to the time with
/// small blocks.
struct Overwritten {
    time: f64,
    /// The ratio for the first write to each page alone.
    first: f64,
}

impl Part {
    fn new(pages: &[u8], input: Input, method: Method, seed: u64) -> Result<Part, Error> {
        let mut bed = Bed::new(pages, method, seed)?;
        bed.check()?;
        Ok(Part { bed, input, method })
    }

    fn figure(&self, what: &str, value: f64, most: f64) -> Figure {
        let told = Figure::new(NAME, self.named(what), value, "");
        if self.method.codec == ZSTD.codec { told.must(Bound::at_most(most)) } else { told }
    }

    fn named(&self, what: &str) -> String {
        format!("{}/{}: {what}", self.input.name(), self.method)
    }

    fn reads(&mut self, report: &mut Report<'_>) -> Result<(), Error> {
        let raw = format!("raw {}, the whole block for each page", self.method);
        let rounds = self.read(|bed| bed.in_order(1))?;
        let what = "4 KiB reads in order, time over 4 KiB blocks";
        let figure = self.figure(what, median_of(&rounds, ours), IN_ORDER_MAX);
        report.add(figure.rival(&raw, median_of(&rounds, theirs)))?;

        let rounds = self.read(|bed| bed.mixed(PERCENT_PARTIAL))?;
        let what = "16 KiB reads, 10% of them of 4 KiB only, time over 4 KiB blocks";
        let figure = self.figure(what, median_of(&rounds, ours), MIXED_MAX);
        report.add(figure.rival(&raw, median_of(&rounds, theirs)))?;

        let rounds = self.read(|bed| bed.shuffled(1))?;
        let over = median_of(&rounds, |round| ours(round) / theirs(round));
        let what = "4 KiB reads in random order, time over 4 KiB blocks, over the raw codec's";
        let figure = self.figure(what, over, RANDOM_OVER_RAW_MAX);
        report.add(figure)?;
        let what = "4 KiB reads in random order, time over 4 KiB blocks";
        let figure = Figure::new(NAME, self.named(what), median_of(&rounds, ours), "");
        report.add(figure.rival(&raw, median_of(&rounds, theirs)))
    }

    /// Measures rounds of reads. The first round warms up and is left out.
    fn read(&mut self, pieces: impl Fn(&mut Bed) -> Vec<Piece>) -> Result<Vec<[f64; 4]>, Error> {
        let mut rounds = Vec::new();
        for _ in 0..=ROUNDS {
            let pieces = pieces(&mut self.bed);
            rounds.push(self.bed.round(SIDES, Access::Read, &pieces, TURN)?);
        }
        rounds.remove(0);
        Ok(rounds)
    }

    /// Overwrites all pages in random order, as many times as `operations` permits.
    fn overwrite(&mut self, operations: Option<u64>) -> Result<Overwritten, Error> {
        const OURS: [Side; 2] = [Side::Ours(Blocks::Small), Side::Ours(Blocks::Large)];
        let most = |operations| operations / self.bed.count() as u64;
        let overwrites = operations.map_or(OVERWRITES, most).clamp(1, OVERWRITES);
        let compacting = [Blocks::Small, Blocks::Large].map(|blocks| self.compacting(blocks));
        let mut seconds = Vec::new();
        for _ in 0..overwrites {
            self.bed.other_pages();
            let pieces = self.bed.shuffled(1);
            seconds.push(self.bed.round(OURS, Access::Write, &pieces, TURN)?);
        }
        self.bed.check()?;
        let all = |nth: usize, blocks| {
            let written: f64 = seconds.iter().map(|each| each[nth]).sum();
            written + self.compacting(blocks) - compacting[nth]
        };
        let time = all(1, Blocks::Large) / all(0, Blocks::Small);
        let first = seconds.first().map_or(f64::NAN, |[small, large]| large / small);
        Ok(Overwritten { time, first })
    }

    /// Returns the seconds of processor time that compaction has used so far.
    fn compacting(&self, blocks: Blocks) -> f64 {
        self.bed.device(blocks).compaction_stat().cpu.as_secs_f64()
    }

    fn writes(&mut self, rows: &[Overwritten], report: &mut Report<'_>) -> Result<(), Error> {
        let middle = |of: fn(&Overwritten) -> f64| median(&rows.iter().map(of).collect::<Vec<_>>());
        let what = "4 KiB writes in random order, time over 4 KiB blocks";
        let figure = self.figure(what, middle(|row| row.time), WRITE_MAX);
        let raw = format!("raw {}, the whole block for each page", self.method);
        let figure = figure.rival(raw, self.raw_writes()?);
        report.add(figure)?;
        let what = "4 KiB writes in random order, of these the first to each page";
        report.add(Figure::new(NAME, self.named(what), middle(|row| row.first), ""))?;
        let used = |blocks| settled(self.bed.device(blocks)) as f64;
        let memory = used(Blocks::Large) / used(Blocks::Small);
        let what = "memory after the writes, over 4 KiB blocks";
        let figure = self.figure(what, memory, MEMORY_MAX);
        report.add(figure)?;
        let rounds = self.read(|bed| bed.in_order(BLOCK_PAGES))?;
        let what = "16 KiB reads after the writes, time over 4 KiB blocks";
        let figure = Figure::new(NAME, self.named(what), median_of(&rounds, ours), "");
        report.add(figure)
    }

    /// Returns the time to compress a whole block for each of its pages, relative to the time to
    /// compress the pages alone. The output is not stored.
    fn raw_writes(&mut self) -> Result<f64, Error> {
        let pieces = self.bed.shuffled(1);
        let some = &pieces[..pieces.len().min(ROUNDS * SAMPLE)];
        let mut rounds = Vec::new();
        for pieces in some.chunks(some.len().div_ceil(ROUNDS)) {
            let [small, large, ..] = SIDES;
            rounds.push(self.bed.round([small, large], Access::Write, pieces, TURN)?);
        }
        Ok(median_of(&rounds, |[small, large]| large / small))
    }
}

/// Returns the device's time with large blocks relative to its time with small blocks.
fn ours([.., small, large]: &[f64; 4]) -> f64 {
    large / small
}

/// Returns the raw codec's time with large blocks relative to its time with small blocks.
fn theirs([small, large, ..]: &[f64; 4]) -> f64 {
    large / small
}
