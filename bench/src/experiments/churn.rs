//! A full store whose slots are overwritten with random contents, millions of times. The figures
//! are its memory, the bytes that compaction moves, and the slowdown of writes. The stores are a
//! device, which compresses, and a pool with compressed blobs, whose memory is compared with that
//! of allocators.

use std::time::Instant;

use fastrand::Rng;
use zram::{Compaction, CompactionStat};

use super::Request;
use super::compared::{Compared, Moment};
use crate::Error;
use crate::contents::{Blobs, Contents};
use crate::inputs::Input;
use crate::pairing::paired;
use crate::report::{Bound, Figure, Report};
use crate::size::mebibytes;
use crate::stores::{Compacted, DeviceStore, Kept, PoolStore, Work, draw, settle};

const NAME: &str = "churn";
/// The number of operations by default.
const OPERATIONS: u64 = 10_000_000;
/// The turns of each side. They are long, so that compaction finishes most of a turn's work within
/// the turn.
const TURNS: u64 = 50;
/// The maximum overhead over C at the end, in percent.
const OVERHEAD_MAX: f64 = 2.5;
/// The maximum number of bytes that compaction moves per byte stored.
const MOVED_MAX: f64 = 0.5;
/// The minimum throughput of writes with compaction, relative to the throughput without compaction.
const THROUGHPUT_MIN: f64 = 0.8;
/// The maximum memory of the pool, relative to the memory of the best rival.
const POOL_MAX: f64 = 0.95;

/// Runs the experiment with the pages of the source tree.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let operations = request.operations.unwrap_or(OPERATIONS);
    for input in request.inputs(&[Input::Source]) {
        let pages = request.whole(input)?.load()?;
        let blobs = Blobs::of_pages(&pages)?;
        let device = Churn::new("device", request.seed, operations, &blobs);
        device.run(&pages, DeviceStore::new, report)?;
        drop(pages);
        let blobs = blobs.filled();
        let pool = Churn::new("pool", request.seed, operations, &blobs);
        pool.run(&blobs, PoolStore::new, report)?;
        let script = [Work::Fill, Work::Churn { operations, seed: request.seed }];
        let compared = Compared::run(&blobs, &script)?;
        let after = Moment { experiment: NAME, name: "allocators", nth: 1 };
        compared.report(&after, report)?;
        compared.over_best(POOL_MAX, &after, report)?;
    }
    Ok(())
}

/// The work for a store that compacts and one that does not.
struct Churn<'b> {
    what: &'static str,
    seed: u64,
    /// The number of operations of a turn.
    operations: u64,
    /// The compressed form of each content.
    blobs: &'b Blobs,
}

/// A side after all turns.
struct Done<'c, S, C> {
    kept: Kept<'c, S, C>,
    seconds: Vec<f64>,
}

impl<'b> Churn<'b> {
    fn new(what: &'static str, seed: u64, operations: u64, blobs: &'b Blobs) -> Churn<'b> {
        Churn { what, seed, operations: operations.div_ceil(TURNS), blobs }
    }

    fn rng(&self, turn: u64) -> Rng {
        Rng::with_seed(self.seed.wrapping_add(turn))
    }

    fn run<S: Compacted, C: Contents>(
        &self,
        contents: &C,
        make: impl Fn(u32, Compaction) -> Result<S, Error>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let side = |compaction| -> Result<Done<'_, S, C>, Error> {
            let mut kept = Kept::new(contents, |slots| make(slots, compaction))?;
            kept.fill()?;
            Ok(Done { kept, seconds: Vec::new() })
        };
        let mut sides = [side(Compaction::Auto)?, side(Compaction::Off)?];
        let before = sides[0].kept.store().compaction();
        for turn in 0..TURNS {
            for place in 0..2 {
                let Done { kept, seconds } = &mut sides[(place + turn as usize) % 2];
                let begun = Instant::now();
                kept.churn(&mut self.rng(turn), self.operations)?;
                seconds.push(begun.elapsed().as_secs_f64());
            }
        }
        let [on, off] = sides;
        self.report_memory(&on.kept, &off.kept, report)?;
        self.report_effort(&before, &on, &off, report)?;
        on.kept.verify()?;
        off.kept.verify()
    }

    fn named(&self, figure: &str) -> String {
        format!("{}/{figure}", self.what)
    }

    fn report_memory<S: Compacted, C: Contents>(
        &self,
        on: &Kept<'_, S, C>,
        off: &Kept<'_, S, C>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let census = self.blobs.census(on.held());
        let over = |used: u64| census.overhead_percent(used).unwrap_or(f64::NAN);
        let overhead = Figure::new(
            NAME,
            self.named("overhead over C at the end"),
            over(on.store().used()),
            "%",
        );
        let overhead = overhead.must(Bound::at_most(OVERHEAD_MAX));
        report.add(overhead.rival("without compaction", over(off.store().used())))?;
        settle();
        let settled = self.named("overhead over C a second later");
        report.add(Figure::new(NAME, settled, over(on.store().used()), "%"))?;
        let all = on.store().counted().map_or(f64::NAN, over);
        report.add(Figure::new(NAME, self.named("everything counted"), all, "%"))?;
        let stored = mebibytes(census.stored_bytes);
        report.add(Figure::new(NAME, self.named("C by raw lz4 at the end"), stored, "MiB"))
    }

    fn report_effort<S: Compacted, C: Contents>(
        &self,
        before: &CompactionStat,
        on: &Done<'_, S, C>,
        off: &Done<'_, S, C>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let after = on.kept.store().compaction();
        let moved = (after.moved_bytes - before.moved_bytes) as f64 / self.stored_bytes() as f64;
        let moved = Figure::new(NAME, self.named("bytes moved over bytes stored"), moved, "");
        report.add(moved.must(Bound::at_most(MOVED_MAX)))?;
        let cpu = (after.cpu - before.cpu).as_secs_f64();
        report.add(Figure::new(NAME, self.named("compaction's CPU time"), cpu, "s"))?;
        // The first turn warms up.
        let times = paired(&off.seconds[1..], &on.seconds[1..])?;
        let share = self.named("throughput, compacting over not");
        let share = Figure::new(NAME, share, times.ratio.median, "");
        report.add(share.must(Bound::at_least(THROUGHPUT_MIN)))?;
        let rate = |seconds: f64| self.operations as f64 / seconds;
        let writes = Figure::new(NAME, self.named("writes"), rate(times.b.median), "/s");
        report.add(writes.rival("without compaction", rate(times.a.median)))
    }

    /// Returns C, the sum of the stored lengths, of all contents that were written. Repeats the
    /// random draws to determine these contents.
    fn stored_bytes(&self) -> u64 {
        let count = self.blobs.len();
        let mut bytes = 0;
        for turn in 0..TURNS {
            let mut rng = self.rng(turn);
            for _ in 0..self.operations {
                bytes += self.blobs.get(draw(&mut rng, count, count).1).len() as u64;
            }
        }
        bytes
    }
}
