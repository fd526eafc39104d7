//! Groups of threads exchange messages that are allocated from object caches: cache misses and
//! time.

use std::io;

use super::found::{Cell, Found, Table};
use super::needs::Need;
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::experiments::{Request, slab};
use crate::report::{Form, Line, Report};

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

/// The number of loops of a quick run.
const QUICK: u64 = 60;

fn run(scene: &Scene<'_>) -> Result<Found, Error> {
    let Request { cache, seed, .. } = scene.request;
    let operations = scene.of(None, Some(QUICK));
    let (cache, seed, inputs, programs) = (cache.clone(), *seed, Vec::new(), Vec::new());
    let request = Request { cache, seed, operations, limit: None, inputs, programs };
    let mut silent = io::sink();
    let mut report = Report::new(Form::Table, seed, &mut silent);
    scene.expects(2);
    scene.step("time");
    slab::messages::run(&request, &mut report)?;
    scene.step("cache misses, by cachegrind");
    slab::misses::run(&request, &mut report)?;
    let mut found = Found::default();
    report.into_figures().iter().for_each(|figure| found.add(figure));
    found.tables.push(table(&found.figures));
    Ok(found)
}

/// Returns a table of the document's results and the results of this run.
fn table(figures: &[Line]) -> Table {
    let head = ["layout", "time", "before, beside it", "time saved", "D1 misses", "LL misses"];
    let mut table = Table::new("Time of all messages, and what is saved", head);
    let document = ["the document", "11.628 s", "12.010 s", "3.2%", "", "3.5% (of all levels)"];
    table.row(document.map(Cell::from));
    let found = |name: String| figures.iter().find(|line| line.figure == name);
    let value = |name: String| found(name).and_then(|line| line.value).unwrap_or(f64::NAN) * 1e3;
    let time = |who: &str| {
        let [time, off] = ["time", "time, +- at most"].map(|of| format!("messages/{who}: {of}"));
        format!("{:.1} ms ± {:.1}", value(time), value(off))
    };
    let saved = |layout: &str, what: &str| {
        let line = found(format!("messages/{layout}: {what} saved"));
        let text = line.and_then(|line| line.value).map(|value| format!("{value:.1}%"));
        let is_short = line.is_some_and(|line| line.pass == Some(false));
        Cell { text: text.unwrap_or("-".to_owned()), is_short }
    };
    for layout in ["stack-u32", "native"] {
        let times = [layout.into(), time(layout), time(&format!("linked-bufctl beside {layout}"))];
        let savings = ["time", "D1 misses", "LL misses"].map(|what| saved(layout, what));
        table.row(times.map(Cell::from).into_iter().chain(savings));
    }
    table
}
