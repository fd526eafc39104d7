//! A compilation with parallel jobs under a memory limit.

use std::fs;
use std::path::PathBuf;

use super::found::{Cell, Found, Table};
use super::needs::Need;
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::experiments::run::{Build, Limited, build_count as count, builds};
use crate::report::{Bound, Figure};
use crate::size::mebibytes;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: Name::Build,
    source: "mTHP and multi-page blocks for zsmalloc and zram (2024)",
    about: "The C sources of the zstd library are compiled by 8 jobs at once, with three \
            quarters and three fifths of the memory that this takes alone: under `uzram run` \
            with zstd in blocks of 4 and of 16 KiB, and in a memory cgroup of the kernel's with \
            swap on zram with lz4. That counts page cache as well, and leaves out what zram \
            takes; ours counts what is compressed. The document built a kernel by 20 jobs in 1 \
            GiB, and says the system time alone. Here are the means of all rounds, user and \
            system time together. \
            All builds come to the same objects.",
    needs: |_| {
        let sources = Need::Met(|| sources().map(drop));
        vec![Need::Program("gcc", "gcc"), Need::Program("make", "make"), sources]
    },
    input: |_| Ok(()),
    run,
};

/// The reason why a compilation can take longer with larger blocks.
const REASON: &str = "A block comes and goes whole, and a compiler touches its memory here and \
                      there. So the tighter the limit, the more goes out with larger \
                      blocks (the last column), which takes more time in the end than a byte \
                      costs less.";
const ROUNDS: u64 = 5;
const QUICK: u64 = 1;

fn run(scene: &Scene<'_>) -> Result<Found, Error> {
    let rounds = scene.of(ROUNDS, QUICK);
    scene.expects(count(rounds) as usize);
    let done = builds(&sources()?, rounds, |what| scene.step(what))?;
    let title = format!("Alone it takes {:.0} MiB; means of {rounds}", mebibytes(done.alone));
    let head = ["limit", "", "user and system time", "wall clock", "went out"];
    let mut table = Table::new(title, head);
    let document = |block: &str, time: &str| {
        let who = format!("the document: system time, {block}");
        ["1 GiB".to_owned(), who, time.to_owned(), "-".to_owned(), "-".to_owned()].map(Cell::from)
    };
    table.row(document("4 KiB", "42 min 42 s"));
    table.row(document("16 KiB", "36 min 5 s (-15.5%)"));
    table.row(row("-", &done.free));
    let mut found = Found::default();
    for Limited { limit, kernel, ours } in &done.limited {
        let limit = format!("{:.0} MiB", mebibytes(*limit));
        kernel.iter().chain(ours).for_each(|side| table.row(row(&limit, side)));
        let [four, sixteen] = ours;
        if let Some(kernel) = kernel {
            for side in ours {
                let what = format!("user and system time at {limit}, {}", side.name);
                let figure = Figure::new("build", what, side.cpu, "s");
                found.add(&figure.rival("the kernel's cgroup", kernel.cpu));
            }
        }
        let ratios = [
            ("user and system time", sixteen.cpu / four.cpu),
            ("wall clock", sixteen.seconds / four.seconds),
        ];
        for (what, ratio) in ratios {
            let what = format!("{what} at {limit}, blocks of 16 KiB over 4 KiB");
            found.add(&scene.judged(Figure::new("build", what, ratio, ""), Bound::below(1.0)));
        }
    }
    found.tables.push(table);
    if found.figures.iter().any(|line| line.pass == Some(false)) {
        found.note(REASON);
    }
    found.present("The kernel's cgroup", done.kernel);
    Ok(found)
}

fn row(limit: &str, Build { name, seconds, cpu, out }: &Build) -> [Cell; 5] {
    let out = out.map_or("-".to_owned(), |bytes| format!("{:.0} MiB", mebibytes(bytes as u64)));
    let cells = [limit.to_owned(), name.clone(), format!("{cpu:.2} s"), format!("{seconds:.2} s")];
    let [limit, name, cpu, seconds] = cells.map(Cell::from);
    [limit, name, cpu, seconds, out.into()]
}

/// Returns the directory of zstd's C sources, which cargo has unpacked for this program.
fn sources() -> Result<PathBuf, Error> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let root = home.unwrap_or_default().join("registry/src");
    let inside =
        |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|of| of.path());
    let is_zstd = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("zstd-sys-"))
    };
    let found = inside(root.clone()).flat_map(inside).find(is_zstd);
    found.map(|path| path.join("zstd/lib")).filter(|path| path.exists()).ok_or_else(|| {
        let reason = format!("the crate zstd-sys is not unpacked below {}", root.display());
        Error::Setup { reason, remedy: "set CARGO_HOME to where cargo keeps its registry" }
    })
}
