//! The files of a compilation, stored with page chains of 4 and of 8 pages.

use std::path::Path;

use zram::{Config, Device};

use super::found::{Cell, Found, Table};
use super::needs::Need;
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::experiments::serve::held::PoolKind;
use crate::filled::{self, kernel_stat};
use crate::inputs::PageSet;
use crate::kernel;
use crate::report::{Bound, Figure};
use crate::size::{MIB, mebibytes, percent_beyond};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: Name::Artifacts,
    source: "The kernel's zsmalloc document",
    about: "What a compilation leaves (here that of this very program: objects, libraries and \
            their metadata) is stored by lz4 on devices with chains of up to 4 and up to 8 \
            pages, by the document's rule, on one with our own geometry, and on the kernel's \
            zram, whose chains have up to 8 pages. The document stored a kernel's build.",
    needs: |quick| {
        let built = Need::Met(|| built().map(drop));
        vec![Need::Memory(4 * if quick { QUICK_BYTES } else { BYTES }), built]
    },
    input: |_| Ok(()),
    run,
};

const KERNEL: &str = "kernel zram, chain 8";
/// The document's results for chains of 4 and of 8 pages.
const DOCUMENT: [(&str, Taken); 2] = [
    (
        "the document, chain 4",
        Taken {
            data: None,
            compressed: 628_083_717,
            used: 655_175_680,
            objects: Some([413_836, 412_973]),
            pages: 159_955,
        },
    ),
    (
        "the document, chain 8",
        Taken {
            data: None,
            compressed: 627_793_930,
            used: 641_703_936,
            objects: Some([414_852, 412_978]),
            pages: 156_666,
        },
    ),
];
const BYTES: u64 = 640 * MIB;
const QUICK_BYTES: u64 = 128 * MIB;

/// The memory that a device uses.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// Bytes that were stored, if known.
    data: Option<u64>,
    /// Stored bytes after compression.
    compressed: u64,
    /// Bytes of memory used.
    used: u64,
    /// The number of objects that the pool's zspages can hold, and the number that they hold, if
    /// known.
    objects: Option<[u64; 2]>,
    pages: u64,
}

fn run(scene: &Scene<'_>) -> Result<Found, Error> {
    let pages = built()?.capped(scene.of(BYTES, QUICK_BYTES)).load()?;
    let mut found = Found::default();
    let mut lines = DOCUMENT.to_vec();
    let chain = |chain| PoolKind::Kernel { chain, merge: true };
    let pools = [
        ("uzram, chain 4", chain(4)),
        ("uzram, chain 8", chain(8)),
        ("uzram, native", PoolKind::Native),
    ];
    scene.expects(pools.len() + 1);
    for (who, pool) in pools {
        scene.step(who);
        lines.push((who, stored(&pages, pool)?));
    }
    scene.step("the kernel's zram");
    let kernel = found.present("The kernel's zram", kernel_stat(&pages)?);
    lines.extend(kernel.map(|stat| (KERNEL, Taken::of_kernel(&stat))));
    judge(&lines, &mut found);
    let data = mebibytes(pages.len() as u64);
    found.tables.push(table(&lines, format!("{data:.0} MiB of a compilation's files")));
    Ok(found)
}

/// Returns the compiled files that lie beside this program.
fn built() -> Result<PageSet, Error> {
    let program = std::env::current_exe().unwrap_or_default();
    let built = program.parent().unwrap_or(Path::new("/"));
    PageSet::of_tree(built, &["deps"]).map_err(|error| {
        let reason = format!("nothing that was compiled lies beside this program: {error}");
        Error::Setup { reason, remedy: "run it by cargo run --release -p bench" }
    })
}

/// Stores all pages on a new device and verifies them.
fn stored(pages: &AlignedBuf, pool: PoolKind) -> Result<Taken, Error> {
    let geometry = pool.geometry();
    let device = Device::new(Config { geometry, ..Config::new(pages.len() as u64)? })?;
    filled::write(&device, pages)?;
    filled::verify(&device, pages)?;
    let (mm, classes) = (device.mm_stat(), device.classes());
    let sum = |of: fn(&zsmalloc::ClassStat) -> u64| classes.iter().map(of).sum();
    Ok(Taken {
        data: Some(mm.orig_data_size),
        compressed: mm.compr_data_size,
        used: mm.mem_used_total,
        objects: Some([sum(|class| class.obj_allocated), sum(|class| class.obj_used)]),
        pages: sum(|class| class.committed),
    })
}

impl Taken {
    /// Converts the kernel's statistics. The kernel does not report the number of objects.
    fn of_kernel(stat: &kernel::MmStat) -> Taken {
        Taken {
            data: Some(stat.orig_data_size),
            compressed: stat.compr_data_size,
            used: stat.mem_used_total,
            objects: None,
            pages: stat.mem_used_total / page::page_size() as u64,
        }
    }
}

/// Requires that longer chains use less memory than shorter chains. The native geometry must use
/// the least memory.
fn judge(lines: &[(&str, Taken)], found: &mut Found) {
    let [(_, document4), (_, document8), (_, four), (_, eight), (_, native), kernel @ ..] = lines
    else {
        return;
    };
    let over = |this: &Taken, that: &Taken| this.used as f64 / that.used as f64;
    let below =
        |what: &str, value| Figure::new("artifacts", what, value, "").must(Bound::below(1.0));
    let longer = below("used by chain 8 over chain 4", over(eight, four));
    found.add(&longer.rival("the document", over(document8, document4)));
    found.add(&below("used by native over chain 8", over(native, eight)));
    for (_, kernel) in kernel {
        found.add(&below("used by native over the kernel's", over(native, kernel)));
    }
}

fn table(lines: &[(&str, Taken)], title: String) -> Table {
    let head =
        ["", "data", "compressed", "used", "overhead", "objects, room for", "objects", "pages"];
    let mut table = Table::new(title, head);
    let told = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    for (who, Taken { data, compressed, used, objects, pages }) in lines {
        let overhead = format!("{:.2}%", percent_beyond(*used, *compressed));
        let [room, objects] = [0, 1].map(|nth| told(objects.map(|counts| counts[nth])));
        let [data, compressed, used, pages] =
            [*data, Some(*compressed), Some(*used), Some(*pages)].map(told);
        let cells = [(*who).to_owned(), data, compressed, used, overhead, room, objects, pages];
        table.row(cells.map(Cell::from));
    }
    table
}
