//! Groups of threads exchange messages that are allocated from object caches. The cache misses and
//! the time of the exchange are measured.

mod messages;
mod misses;
mod objects;

use super::found::{Cell, Found, Table};
use super::needs::Need;
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::report::{Bound, Figure};
use crate::summary::{median, ratio};
pub use misses::{Exchange, exchange};
use misses::{LAYOUTS, WHICH};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: Name::Messaging,
    source: "SLAB's management in the page descriptor (2013)",
    about: "50 groups of senders and receivers exchange messages whose parts come from two \
            object caches, 1000 loops, by the layouts before, after and ours. The document had \
            20 senders and 20 receivers a group on four processors, as processes with sockets; \
            here are 2 and 2 threads a group. Time is the median of ten pairs of runs in turn, \
            each of which exchanges all messages ten times. \
            Cache misses are cachegrind's, of a quarter of the messages, where threads take \
            turns as a seed says: so all layouts do the same work.",
    needs: |_| vec![Need::Program("valgrind", "valgrind")],
    input: |_| Ok(()),
    run,
};

const LOOPS: u64 = 1000;
const QUICK: u64 = 60;
/// The percentages of the time and of the cache misses that were saved in 2013, when the management
/// data moved out of the slab.
const SAVED: f64 = 3.2;
const MISSES_SAVED: f64 = 3.5;

fn run(scene: &Scene<'_>) -> Result<Found, Error> {
    let loops = scene.of(LOOPS, QUICK);
    scene.expects(2);
    scene.step("time");
    let layouts = &LAYOUTS[1..];
    let times = layouts.iter().map(|layout| messages::times(*layout, loops, scene.quick));
    let times = times.collect::<Result<Vec<_>, Error>>()?;
    scene.step("cache misses, by cachegrind");
    let misses = misses::counted(loops, scene.request.seed, scene.quick)?;
    let mut found = Found::default();
    let head = ["layout", "time", "before, beside it", "time saved", "D1 misses", "LL misses"];
    let mut table = Table::new("Time of all messages, and what is saved", head);
    let document = ["the document", "11.628 s", "12.010 s", "3.2%", "", "3.5% (of all levels)"];
    table.row(document.map(Cell::from));
    let mut saved = |what: String, after: &[f64], before: &[f64], must: Bound, document| {
        let saved = (1.0 - ratio(after, before)) * 100.0;
        let figure = figure(format!("messages/{what} saved"), saved, "%").must(must);
        found.add(&figure.rival("the source", document));
        Cell::judged(format!("{saved:.1}%"), saved, must)
    };
    for ((layout, times), counts) in layouts.iter().zip(&times).zip(&misses[1..]) {
        let [after, before] = &times[..] else { continue };
        let [time_after, time_before] = [after, before].map(|seconds| {
            let (median, off) = time(seconds);
            format!("{:.1} ms ± {:.1}", median * 1e3, off * 1e3)
        });
        let mut row: Vec<Cell> =
            [layout.to_string(), time_after, time_before].map(Cell::from).to_vec();
        let none = Bound::at_least(0.0);
        row.push(saved(format!("{layout}: time"), after, before, none, SAVED));
        for ((which, after), before) in WHICH.iter().zip(counts).zip(&misses[0]) {
            let (what, some) = (format!("{layout}: {which} misses"), Bound::above(0.0));
            row.push(saved(what, after, before, some, MISSES_SAVED));
        }
        table.row(row);
    }
    for (layout, times) in layouts.iter().zip(&times) {
        let who = [format!("{layout}"), format!("linked-bufctl beside {layout}")];
        for (who, times) in who.iter().zip(times) {
            let (median, off) = time(times);
            found.add(&figure(format!("messages/{who}: time"), median, "s"));
            found.add(&figure(format!("messages/{who}: time, +- at most"), off, "s"));
        }
    }
    for (layout, counts) in LAYOUTS.iter().zip(&misses) {
        for (which, counts) in WHICH.iter().zip(counts) {
            found.add(&figure(format!("messages/{layout}: {which} misses"), median(counts), ""));
        }
    }
    found.tables.push(table);
    Ok(found)
}

fn figure(name: String, value: f64, unit: &'static str) -> Figure {
    Figure::new("messaging", name, value, unit)
}

/// Returns the median of `seconds`, and the largest deviation of a value from the median.
fn time(seconds: &[f64]) -> (f64, f64) {
    let median = median(seconds);
    (median, seconds.iter().map(|seconds| (seconds - median).abs()).fold(0.0, f64::max))
}
