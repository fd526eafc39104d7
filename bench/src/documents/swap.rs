//! Evicts memory and fills it again a hundred times, in blocks of 4, 16 and 64 KiB.

use super::found::{Cell, Chart, Found, Series, Table};
use super::needs::Need;
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::experiments::zmem::{BYTES, Laps, kernel_laps, our_laps};
use crate::inputs::Input;
use crate::method::{BLOCKS, LZ4, Method, ZSTD};
use crate::report::{Bound, Figure};
use crate::size::GIB;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: Name::Swap,
    source: "mTHP and multi-page blocks for zsmalloc and zram (2024)",
    about: "100 MiB of a CPython process's heap go out and come back, all of it in order, 100 \
            times: by `zmem` with its backend that needs no right, in blocks of 4, 16 and 64 \
            KiB, with zstd at level 3 and with lz4; and by the kernel's own swap on a zram \
            device of its own with lz4, in pages and in folios of these sizes. The kernel's zram \
            has blocks of 4 KiB whatever the folio is. Times are the sum of all rounds; the \
            ratio is memory of the pool over the data.",
    needs: |_| vec![Need::Program("python3", "python3"), Need::Memory(2 * GIB)],
    input: |cache| Input::Heap.open(cache).map(drop),
    run,
};

const ROUNDS: u64 = 100;
const QUICK: u64 = 3;
/// The document's results with zstd, for blocks of 4 KiB and of 16 KiB.
const DOCUMENT: [[&str; 2]; 3] =
    [["68,711 ms", "49,908 ms"], ["30,687 ms", "20,685 ms"], ["20.49%", "16.9%"]];
const COLUMNS: [&str; 3] = ["out", "in", "memory over data"];

fn run(scene: &Scene<'_>) -> Result<Found, Error> {
    let pages = scene.request.pages(Input::Heap)?.capped(BYTES).load()?;
    let rounds = scene.of(ROUNDS, QUICK);
    let head = ["of 100 MiB", "", "4 KiB", "16 KiB", "64 KiB"];
    let mut table = Table::new(format!("{rounds} rounds"), head);
    for (column, figures) in COLUMNS.iter().zip(DOCUMENT) {
        let [four, sixteen] = figures.map(Cell::from);
        table.row([
            "the document, zstd, 100 rounds".into(),
            Cell::from(*column),
            four,
            sixteen,
            Cell::default(),
        ]);
    }
    let mut found = Found::default();
    // After the loop, holds the results of the last method, lz4, which the kernel's swap uses too.
    let mut ours = Vec::new();
    // One step measures each of uzram's two methods, and one step each size of the kernel's folios.
    scene.expects(2 + BLOCKS.len());
    for method in [ZSTD, LZ4] {
        scene.step(format!("uzram, {method}"));
        let laps = our_laps(&pages, method, &BLOCKS, rounds)?;
        let laps: Vec<_> = laps.into_iter().map(Some).collect();
        compare(method, &laps, &mut found);
        rows(&format!("uzram, {method}"), &laps, &mut table);
        found.charts.push(chart(method, &laps));
        ours = laps;
    }
    let mut laps = Vec::new();
    for folio in BLOCKS {
        scene.step(format!("the kernel, lz4, folios of {} KiB", folio >> 10));
        let name = format!("The kernel's swap with folios of {} KiB", folio >> 10);
        laps.push(found.present(&name, kernel_laps(&pages, folio, rounds)?));
    }
    rows("the kernel, lz4", &laps, &mut table);
    beside(&ours, &laps, &mut found);
    found.tables.push(table);
    Ok(found)
}

/// Compares uzram's times with the kernel's times, for each block size for which both times exist.
fn beside(ours: &[Option<Laps>], kernels: &[Option<Laps>], found: &mut Found) {
    for ((block, ours), kernels) in BLOCKS.iter().zip(ours).zip(kernels) {
        let Some((ours, kernels)) = ours.as_ref().zip(kernels.as_ref()) else { continue };
        for (what, ours, kernels) in
            [("out", ours.out, kernels.out), ("in", ours.back, kernels.back)]
        {
            let what = format!("{LZ4}: {what}, {} KiB", block >> 10);
            found.add(&Figure::new("swap", what, ours, "s").rival("the kernel", kernels));
        }
    }
}

fn columns(laps: &Laps) -> [f64; 3] {
    [laps.out, laps.back, laps.ratio]
}

/// Requires that each column has a smaller value for blocks of 16 KiB than for blocks of 4 KiB.
fn compare(method: Method, laps: &[Option<Laps>], found: &mut Found) {
    let [Some(four), Some(sixteen), ..] = laps else { return };
    for ((what, four), sixteen) in COLUMNS.iter().zip(columns(four)).zip(columns(sixteen)) {
        let what = format!("{method}: {what}, blocks of 16 KiB over 4 KiB");
        found.add(&Figure::new("swap", what, sixteen / four, "").must(Bound::below(1.0)));
    }
}

fn rows(who: &str, laps: &[Option<Laps>], table: &mut Table) {
    for (nth, column) in COLUMNS.into_iter().enumerate() {
        let cell = |laps: &Option<Laps>| match (laps.as_ref().map(columns), nth) {
            (None, _) => "-".into(),
            (Some(values), 2) => format!("{:.2}%", values[2] * 100.0).into(),
            (Some(values), _) => format!("{:.0} ms", values[nth] * 1e3).into(),
        };
        let cells = laps.iter().map(cell);
        table.row([Cell::from(who), column.into()].into_iter().chain(cells));
    }
}

fn chart(method: Method, laps: &[Option<Laps>]) -> Chart {
    let of = |name: &str, part: fn(&Laps) -> f64| Series {
        name: name.to_owned(),
        values: laps.iter().flatten().map(part).collect(),
    };
    Chart {
        title: format!("Out and in again, {method}"),
        unit: "seconds".to_owned(),
        places: BLOCKS.iter().map(|block| format!("{} KiB", block >> 10)).collect(),
        series: vec![of("out", |laps| laps.out), of("in", |laps| laps.back)],
        is_log: false,
    }
}
