//! Unpacks a source tree on a disk and removes it directory by directory.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;

use super::disk::Mount;
use super::found::{Cell, Chart, Found, Series, Table};
use super::needs::Need;
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::experiments::serve::held::{Holds, PoolKind};
use crate::experiments::serve::tree::{pack, unpack_at};
use crate::inputs::{REMOVAL_ORDER, source_tree};
use crate::report::{Bound, Figure};
use crate::size::{GIB, mebibytes, percent_beyond};
use crate::tool::Tool;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: Name::Untar,
    source: "zsmalloc: merging of size classes (2014)",
    about: "The Linux 6.1 source tree is unpacked on ext4, mounted with `discard`, and its \
            directories are removed in the document's order (6.1 has no `firmware`). After each \
            step the file system is synced and trimmed, and the disk is asked what it holds. The \
            disks: uzram with the kernel's packing as it was then (chains of 4 pages, no \
            compaction), without merging and with it; uzram as it is; and the kernel's own zram. \
            Overhead is what the pool takes beyond the compressed data. All are compressed by \
            lz4, the document's by lzo.",
    needs,
    input: |cache| source_tree(cache).map(drop),
    run,
};

const DIFF: Tool = Tool {
    name: "diff",
    package: "diffutils",
    remedy: "the disk gave back other files, so no figure of it can be trusted",
};
const DISK: u64 = 3 * GIB;
const DISKS: usize = 4;
/// The document's overheads in percent, before the first removal and after each removal. Each pair
/// holds the overheads without and with merging of size classes.
const DOCUMENT: [[f64; 2]; 10] = [
    [5.56, 5.34],
    [8.41, 6.80],
    [13.55, 9.47],
    [18.55, 11.51],
    [24.58, 13.96],
    [29.21, 16.19],
    [43.13, 22.04],
    [60.70, 29.86],
    [88.03, 42.97],
    [91.24, 46.53],
];
/// The number of directories that a quick run omits. The omitted directories contain most of the
/// tree.
const QUICK_WITHOUT: usize = 2;
/// The maximum overhead of uzram in percent, after unpacking and after every later step.
const UNPACKED_MAX: f64 = 0.6;
const LATER_MAX: f64 = 2.0;

fn needs(quick: bool) -> Vec<Need> {
    let programs = [
        Need::Program("mkfs.ext4", "e2fsprogs"),
        Need::Program("losetup", "mount"),
        Need::Program("fstrim", "util-linux"),
        Need::Program(DIFF.name, DIFF.package),
        Need::Program("tar", "tar"),
    ];
    let room = if quick { GIB / 2 } else { 2 * GIB };
    [Need::Root, Need::Fuse, Need::Disk(room), Need::Memory(2 * GIB)]
        .into_iter()
        .chain(programs)
        .collect()
}

/// A disk's name, and the amounts of data on it after each step.
type Line = (&'static str, Vec<Holds>);

fn run(scene: &Scene<'_>) -> Result<Found, Error> {
    let tree = source_tree(&scene.request.cache)?;
    let without = scene.of(0, QUICK_WITHOUT);
    let steps = &REMOVAL_ORDER[without..];
    // The steps of each disk are the unpacking, all removals and the comparison.
    scene.expects(1 + DISKS * (steps.len() + 2));
    scene.step("packing");
    let packed = match scene.quick {
        true => pack(&tree, steps)?,
        false => pack(&tree, &["."])?,
    };
    let mut lines: Vec<Line> = Vec::new();
    let mut found = Found::default();
    let kernel = |merge| PoolKind::Kernel { chain: 4, merge };
    for (name, pool) in [
        ("uzram, chains of 4, merging off", kernel(false)),
        ("uzram, chains of 4, merging on", kernel(true)),
        ("uzram", PoolKind::Native),
    ] {
        let disk = Mount::ours(pool, DISK)?;
        lines.push((name, one(scene, name, disk, &packed, &tree, steps)?));
    }
    if let Some(disk) = found.present("The kernel's zram", Mount::kernels(DISK)?) {
        let name = "kernel zram";
        lines.push((name, one(scene, name, disk, &packed, &tree, steps)?));
        found.note("The last line of the kernel's table is after a write to its `compact`.");
    }
    let names: Vec<String> = ["untar".to_owned()]
        .into_iter()
        .chain(steps.iter().map(|step| format!("-{step}")))
        .collect();
    let document = &DOCUMENT[without..];
    let tables = lines.iter().enumerate().map(|(nth, line)| table(line, &names, document, nth));
    found.tables.extend(tables);
    judge(scene, &lines, &names, document, &mut found);
    found.charts.push(chart(&lines, &names, document));
    Ok(found)
}

/// Unpacks the tree, removes directories, verifies the remaining files, and returns the amounts of
/// data after each step.
fn one(
    scene: &Scene<'_>,
    name: &str,
    disk: Mount,
    packed: &File,
    tree: &Path,
    steps: &[&str],
) -> Result<Vec<Holds>, Error> {
    scene.step(format!("{name}: unpacking"));
    unpack_at(packed, &disk.mounted.dir)?;
    let mut holds = vec![disk.holds()?];
    for step in steps {
        scene.step(format!("{name}: -{step}"));
        let dir = disk.mounted.dir.join(step);
        fs::remove_dir_all(&dir).map_err(Error::file("remove", &dir, "run it again"))?;
        holds.push(disk.holds()?);
    }
    disk.compact()?;
    holds.push(disk.holds()?);
    scene.step(format!("{name}: comparing"));
    let disk = disk.again()?;
    // A quick run packs only the directories that it removes.
    let is_left = |name: &OsString| !scene.quick && steps.iter().all(|step| name != step);
    compare(&disk.mounted.dir, tree, &is_left)?;
    Ok(holds)
}

/// Verifies that `left` contains exactly the entries of `tree` for which `is_left` returns true.
fn compare(left: &Path, tree: &Path, is_left: &dyn Fn(&OsString) -> bool) -> Result<(), Error> {
    let expected: BTreeSet<OsString> = names(tree)?.into_iter().filter(is_left).collect();
    let is_of_tree = |name: &OsString| name != "lost+found";
    let found: BTreeSet<OsString> = names(left)?.into_iter().filter(is_of_tree).collect();
    if let Some(name) = found.symmetric_difference(&expected).next() {
        let device = left.join(name).display().to_string();
        return Err(Error::Mismatch { device, offset: 0 });
    }
    found.iter().try_for_each(|name| {
        let mut diff = DIFF.command();
        diff.args(["-rq", "--no-dereference"]).args([left.join(name), tree.join(name)]);
        DIFF.run(&mut diff).map(drop)
    })
}

fn names(dir: &Path) -> Result<Vec<OsString>, Error> {
    let listed = fs::read_dir(dir).and_then(|listed| {
        listed.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()
    });
    listed.map_err(Error::file("list", dir, "run it again"))
}

/// Returns the pool's overhead: the memory beyond the size of the compressed data, in percent of
/// that size.
fn overhead(holds: &Holds) -> f64 {
    percent_beyond(holds.used, holds.compressed)
}

fn table((name, holds): &Line, names: &[String], document: &[[f64; 2]], nth: usize) -> Table {
    let head = ["step", "data, MiB", "compressed, MiB", "used, MiB", "overhead, MiB", "overhead"];
    let has_document = nth < 2;
    let mut table =
        Table::new(*name, head.into_iter().chain(has_document.then_some("the document's")));
    let compacted = "after `compact`".to_owned();
    // Only the kernel's disk is compacted on demand.
    let steps = names.iter().chain((*name == "kernel zram").then_some(&compacted));
    for (at, (step, holds)) in steps.zip(holds).enumerate() {
        let beyond = holds.used.saturating_sub(holds.compressed);
        let sizes = [holds.data, holds.compressed, holds.used, beyond];
        let sizes = sizes.map(|bytes| format!("{:.2}", mebibytes(bytes)));
        let percent = format!("{:.2}%", overhead(holds));
        let documents = document.get(at).filter(|_| has_document);
        let documents = documents.map(|both| format!("{:.2}%", both[nth]));
        let cells = [step.clone()].into_iter().chain(sizes).chain([percent]).chain(documents);
        table.row(cells.map(Cell::from));
    }
    table
}

/// Requires that merging reduces the overhead at each step. The overhead of uzram must not exceed
/// its maximum.
fn judge(
    scene: &Scene<'_>,
    lines: &[Line],
    names: &[String],
    document: &[[f64; 2]],
    found: &mut Found,
) {
    let of = |nth: usize, at: usize| lines.get(nth).map(|(_, holds)| overhead(&holds[at]));
    for (at, step) in names.iter().enumerate() {
        let [Some(off), Some(on), Some(own)] = [of(0, at), of(1, at), of(2, at)] else { continue };
        let what = format!("{step}: overhead with merging over without");
        let merged = scene.judged(Figure::new("untar", what, on / off, ""), Bound::below(1.0));
        found.add(&match document.get(at) {
            Some([off, on]) => merged.rival("the document", on / off),
            None => merged,
        });
        let most = if at == 0 { UNPACKED_MAX } else { LATER_MAX };
        let native = Figure::new("untar", format!("{step}: overhead of uzram"), own, "%");
        let native = scene.judged(native, Bound::at_most(most));
        found.add(&match of(3, at) {
            Some(kernel) => native.rival("kernel zram", kernel),
            None => native,
        });
    }
}

fn chart(lines: &[Line], names: &[String], document: &[[f64; 2]]) -> Chart {
    let series = |(name, holds): &Line| Series {
        name: (*name).to_owned(),
        values: holds.iter().take(names.len()).map(overhead).collect(),
    };
    let documents =
        ["the document, merging off", "the document, merging on"].into_iter().enumerate();
    let documents = documents.map(|(nth, name)| Series {
        name: name.to_owned(),
        values: document.iter().map(|both| both[nth]).collect(),
    });
    Chart {
        title: "Overhead as the tree is removed".to_owned(),
        unit: "% of the compressed data".to_owned(),
        places: names.to_vec(),
        series: lines.iter().map(series).chain(documents).collect(),
        is_log: true,
    }
}
