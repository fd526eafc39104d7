//! The files of a compilation, stored with chains of 4 and of 8 pages.

use std::path::Path;

use zram::{Config, Device, MmStat};
use zsmalloc::{ChainRule, Geometry, KernelGeometry};

use super::found::{Cell, Found, Table};
use super::needs::Need;
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::filled::{self, kernel_stat};
use crate::inputs::PageSet;
use crate::kernel::{self, Rival};
use crate::report::{Bound, Figure};
use crate::size::{MIB, mebibytes};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: Name::Artifacts,
    source: "The kernel's zsmalloc document",
    about: "What a compilation leaves (here that of this very program: objects, libraries and \
            their metadata) is stored by lz4 on devices with chains of up to 4 and up to 8 \
            pages, by the document's rule, on one with our own geometry, and on the kernel's \
            zram, whose chains have up to 8 pages. The document stored a kernel's build.",
    needs: |quick| vec![Need::Memory(4 * bytes(quick))],
    run,
};

/// What the document says of chains of 4 and of 8: bytes compressed and used, objects allocated and
/// used, pages.
const DOCUMENT: [(&str, [u64; 5]); 2] = [
    ("the document, chain 4", [628_083_717, 655_175_680, 413_836, 412_973, 159_955]),
    ("the document, chain 8", [627_793_930, 641_703_936, 414_852, 412_978, 156_666]),
];

/// Bytes that are stored at most.
fn bytes(quick: bool) -> u64 {
    if quick { 128 * MIB } else { 640 * MIB }
}

/// What a device takes.
struct Taken {
    mm: MmStat,
    /// Objects there is room for, objects, pages.
    pool: [u64; 3],
}

fn run(scene: &Scene<'_>) -> Result<Found, Error> {
    let program = std::env::current_exe().unwrap_or_default();
    let built = program.parent().unwrap_or(Path::new("/"));
    let set = PageSet::of_tree(built, &["deps"])?.capped(bytes(scene.quick));
    if set.page_count() == 0 {
        let reason = format!("nothing that was compiled lies in {}", built.join("deps").display());
        return Err(Error::Setup { reason, remedy: "run it by cargo run --release -p bench" });
    }
    let pages = set.load()?;
    let head =
        ["", "data", "compressed", "used", "overhead", "objects, room for", "objects", "pages"];
    let mut table = Table::new(
        format!("{:.0} MiB of a compilation's files", mebibytes(pages.len() as u64)),
        head,
    );
    for (who, [compressed, used, allocated, objects, pages]) in DOCUMENT {
        row(
            who,
            ["-".into(), compressed.to_string()],
            used,
            compressed,
            [allocated, objects, pages],
            &mut table,
        );
    }
    let chain = |chain| {
        let kernel =
            KernelGeometry { chain, rule: ChainRule::UsedPercent, ..KernelGeometry::default() };
        Geometry::Kernel(kernel)
    };
    let mut used = Vec::new();
    for (who, geometry) in [
        ("uzram, chain 4", chain(4)),
        ("uzram, chain 8", chain(8)),
        ("uzram, native", Geometry::default()),
    ] {
        scene.step(who);
        let Taken { mm, pool } = stored(&pages, geometry)?;
        let data = [mm.orig_data_size, mm.compr_data_size].map(|bytes| bytes.to_string());
        row(who, data, mm.mem_used_total, mm.compr_data_size, pool, &mut table);
        used.push(mm.mem_used_total as f64);
    }
    let mut found = Found::default();
    scene.step("the kernel's zram");
    let kernel = kernel_stat(&pages)?;
    let native = Figure::new("artifacts", "used by native over chain 8", used[2] / used[1], "");
    let eight = Figure::new("artifacts", "used by chain 8 over chain 4", used[1] / used[0], "");
    let document = DOCUMENT[1].1[1] as f64 / DOCUMENT[0].1[1] as f64;
    found.add(&eight.must(Bound::below(1.0)).rival("the document", document));
    found.add(&native.must(Bound::below(1.0)));
    match kernel {
        Rival::Present(stat) => {
            kernels_row(&stat, &mut table);
            let over = Figure::new(
                "artifacts",
                "used by native over the kernel's",
                used[2] / stat.mem_used_total as f64,
                "",
            );
            found.add(&over.must(Bound::below(1.0)));
        }
        Rival::Absent(reason) => found.note(format!("The kernel's zram is left out: {reason}.")),
    }
    found.tables.push(table);
    Ok(found)
}

/// Stores all pages on a new device, and reads them back.
fn stored(pages: &AlignedBuf, geometry: Geometry) -> Result<Taken, Error> {
    let device = Device::new(Config { geometry, ..Config::new(pages.len() as u64)? })?;
    filled::write(&device, pages)?;
    filled::verify(&device, pages)?;
    let classes = device.classes();
    let sum = |of: fn(&zsmalloc::ClassStat) -> u64| classes.iter().map(of).sum();
    let pool = [
        sum(|class| class.obj_allocated),
        sum(|class| class.obj_used),
        sum(|class| class.committed),
    ];
    Ok(Taken { mm: device.mm_stat(), pool })
}

fn row(
    who: &str,
    [data, compressed]: [String; 2],
    used: u64,
    compr: u64,
    pool: [u64; 3],
    table: &mut Table,
) {
    let overhead = format!("{:.2}%", (used as f64 / compr as f64 - 1.0) * 100.0);
    let cells = [who.to_owned(), data, compressed, used.to_string(), overhead];
    let pool = pool.map(|count| count.to_string());
    table.row(cells.into_iter().chain(pool).map(Cell::from));
}

/// The kernel does not tell of its objects where it was built without statistics.
fn kernels_row(stat: &kernel::MmStat, table: &mut Table) {
    let overhead = (stat.mem_used_total as f64 / stat.compr_data_size as f64 - 1.0) * 100.0;
    let cells = [stat.orig_data_size, stat.compr_data_size, stat.mem_used_total]
        .map(|bytes| bytes.to_string());
    let pages = stat.mem_used_total / page::page_size() as u64;
    let row = ["kernel zram, chain 8".to_owned()].into_iter().chain(cells).chain([
        format!("{overhead:.2}%"),
        "-".to_owned(),
        "-".to_owned(),
        pages.to_string(),
    ]);
    table.row(row.map(Cell::from));
}
