//! Copies pieces of many sizes from a text to a disk, with page chains of increasing length.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::disk::Mount;
use super::found::{Cell, Chart, Found, Series, Table};
use super::needs::Need;
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::experiments::serve::held::{Holds, PoolKind};
use crate::inputs::source_tree;
use crate::report::{Bound, Figure};
use crate::size::{GIB, MIB, mebibytes};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: Name::Pieces,
    source: "zsmalloc: longer chains of pages (2016)",
    about: "The source of zsmalloc, 200 times over, is copied in pieces of 1, 513, 1025 ... \
            bytes up to 1 MiB, each to a file of its own that is synced as it is written, on \
            ext4: three rounds, as in the document's script. The disks are of uzram with the \
            kernel's packing, merging on, with chains of up to 4, 5, 6, 8 and 16 pages; uzram as \
            it is; and the kernel's own zram, whose chains have up to 8. All are compressed by \
            lz4, the document's by lzo.",
    needs: |_| {
        let programs = [Need::Program("mkfs.ext4", "e2fsprogs"), Need::Program("losetup", "mount")];
        let of_machine = [Need::Root, Need::Fuse, Need::Disk(2 * GIB), Need::Memory(6 * GIB)];
        of_machine.into_iter().chain(programs).collect()
    },
    input: |cache| source_tree(cache).map(drop),
    run,
};

const DISK: u64 = 4 * GIB;
const LARGEST: usize = 1 << 20;
const TEXT: &str = "mm/zsmalloc.c";
const TIMES: usize = 200;
const ROUNDS: usize = 3;
const STEP: usize = 512;
const QUICK_STEP: usize = 16 * STEP;
const CHAINS: [usize; 5] = [4, 5, 6, 8, 16];
/// For each length of a page chain in pages, the document's result. The result is the median size
/// of the pool in three runs, in MB.
const DOCUMENT: [(usize, f64); 3] = [(4, 1842.7), (5, 1804.4), (6, 1789.2)];
/// The sizes of the data in the document, in MB, before and after compression.
const DOCUMENT_DATA: f64 = 3371.1;
const DOCUMENT_COMPRESSED: f64 = 1714.7;
const MB: f64 = 1e6;
const ROOM: &str = "give the disk more room";

fn run(scene: &Scene<'_>) -> Result<Found, Error> {
    let source = source_tree(&scene.request.cache)?.join(TEXT);
    let text = fs::read(&source).map_err(Error::file("read", &source, "unpack it again"))?;
    let text = text.repeat(TIMES.max(LARGEST.div_ceil(text.len())));
    // The native disk and the kernel's disk are measured too.
    scene.expects(CHAINS.len() + 2);
    let (rounds, step) = scene.of((ROUNDS, STEP), (1, QUICK_STEP));
    let one = |name: &str, disk: Mount| {
        scene.step(name);
        stored(disk, &text, rounds, step)
    };
    let mut found = Found::default();
    let mut lines = Vec::new();
    for chain in CHAINS {
        let disk = Mount::ours(PoolKind::Kernel { chain, merge: true }, DISK)?;
        let name = format!("uzram, chains of {chain}");
        let holds = one(&name, disk)?;
        lines.push((name, holds));
    }
    let holds = one("uzram", Mount::ours(PoolKind::Native, DISK)?)?;
    lines.push(("uzram".to_owned(), holds));
    if let Some(disk) = found.present("The kernel's zram", Mount::kernels(DISK)?) {
        lines.push(("kernel zram".to_owned(), one("kernel zram", disk)?));
    }
    let pieces = sizes(step).count() * rounds;
    found.tables.push(table(&lines, format!("{pieces} files")));
    judge(scene, &lines, &mut found);
    found.charts.push(Chart {
        title: "Memory of the pool".to_owned(),
        unit: "MiB".to_owned(),
        places: lines.iter().map(|(name, _)| name.replace("uzram, chains of", "chain")).collect(),
        series: vec![Series {
            name: "used".to_owned(),
            values: lines.iter().map(|(_, holds)| mebibytes(holds.used)).collect(),
        }],
        is_log: false,
    });
    Ok(found)
}

/// Returns the sizes of the pieces, from 1 byte up to the largest size, in steps of `step` bytes.
fn sizes(step: usize) -> impl Iterator<Item = usize> {
    (1..=LARGEST).step_by(step)
}

/// Copies all pieces and returns the amounts of data on the disk. Reads some of the pieces back and
/// compares them with the text.
fn stored(disk: Mount, text: &[u8], rounds: usize, step: usize) -> Result<Holds, Error> {
    for round in 0..rounds {
        for size in sizes(step) {
            let path = place(&disk.mounted.dir, round, size);
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .custom_flags(libc::O_SYNC)
                .open(&path);
            let written = file.and_then(|mut file| file.write_all(&text[..size]));
            written.map_err(Error::file("write", &path, ROOM))?;
        }
    }
    let holds = disk.holds()?;
    let disk = disk.again()?;
    for size in sizes(step).step_by(16) {
        let path = place(&disk.mounted.dir, rounds - 1, size);
        let bytes = fs::read(&path).map_err(Error::file("read", &path, ROOM))?;
        if bytes != text[..size] {
            return Err(Error::Mismatch { device: path.display().to_string(), offset: 0 });
        }
    }
    Ok(holds)
}

fn place(dir: &Path, round: usize, size: usize) -> std::path::PathBuf {
    dir.join(format!("{round}-{size}"))
}

fn table(lines: &[(String, Holds)], title: String) -> Table {
    let head = ["", "data, MiB", "compressed, MiB", "used, MiB", "saved against chains of 4"];
    let mut table = Table::new(title, head);
    for (chain, used) in DOCUMENT {
        let saved = format!("{:.1}%", (1.0 - used / DOCUMENT[0].1) * 100.0);
        let name = format!("the document, chains of {chain}");
        let sizes = [DOCUMENT_DATA, DOCUMENT_COMPRESSED, used];
        let [data, compressed, used] = sizes.map(|size| format!("{:.1}", size * MB / MIB as f64));
        table.row([name, data, compressed, used, saved].map(Cell::from));
    }
    for (name, Holds { data, compressed, used }) in lines {
        let sizes = [data, compressed, used].map(|bytes| format!("{:.1}", mebibytes(*bytes)));
        let saved = format!("{:.1}%", (1.0 - *used as f64 / lines[0].1.used as f64) * 100.0);
        let cells = [name.clone()].into_iter().chain(sizes).chain([saved]);
        table.row(cells.map(Cell::from));
    }
    table
}

/// Requires that each disk uses less memory than the previous one in `lines`.
fn judge(scene: &Scene<'_>, lines: &[(String, Holds)], found: &mut Found) {
    let used = |nth: usize| lines[nth].1.used as f64;
    let document = |nth: usize| DOCUMENT[nth].1 / DOCUMENT[nth - 1].1;
    for (nth, (name, _)) in lines.iter().enumerate().take(CHAINS.len() + 1).skip(1) {
        let before = &lines[nth - 1].0;
        let what = format!("memory of {name} over {before}");
        let figure = Figure::new("pieces", what, used(nth) / used(nth - 1), "");
        let figure = scene.judged(figure, Bound::below(1.0));
        found.add(&if nth < DOCUMENT.len() {
            figure.rival("the document", document(nth))
        } else {
            figure
        });
    }
    if let Some((_, kernel)) = lines.get(CHAINS.len() + 1) {
        let over = used(CHAINS.len()) / kernel.used as f64;
        let figure = Figure::new("pieces", "memory of uzram over kernel zram", over, "");
        found.add(&scene.judged(figure, Bound::below(1.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_of_the_document() {
        const MIB: usize = 1 << 20;
        let all: Vec<usize> = sizes(STEP).collect();
        assert_eq!((all.len(), &all[..3]), (2048, &[1, 513, 1025][..]));
        assert!(all.iter().all(|size| *size <= LARGEST));
        assert_eq!(all.iter().sum::<usize>() * ROUNDS / MIB, 3070);
    }
}
