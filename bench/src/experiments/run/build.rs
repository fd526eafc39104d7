//! A compilation with parallel jobs under a memory limit. The compilation runs under `uzram run`
//! with blocks of 4 KiB and of 16 KiB. For comparison, it runs in a memory cgroup with the kernel's
//! swap on zram.

use std::path::Path;

use super::Scale;
use super::jobs::Prepared;
use super::place::{Place, program};
use super::side::{Kernel, Outcome, Side, run as run_side};
use super::watch::LONGEST;
use crate::Error;
use crate::kernel::Rival;

/// The number of parallel jobs.
const JOBS: u32 = 8;
/// The limits as shares of the memory that the compilation uses without a limit.
const SHARES: [f64; 2] = [0.75, 0.6];
/// The size of the kernel's swap in bytes.
const SWAP: u64 = 2 << 30;
/// For each side of uzram, the size of a block in KiB and the options of `uzram run`.
const OURS: [(u64, &[&str]); 2] = [
    (4, &["--algorithm", "zstd", "--block", "4K"]),
    (16, &["--algorithm", "zstd", "--block", "16K"]),
];

/// The measurements of all builds.
#[derive(Debug)]
pub(crate) struct Builds {
    /// The bytes of memory that a build uses without a limit.
    pub(crate) alone: u64,
    /// The builds without a limit.
    pub(crate) free: Build,
    pub(crate) limited: Vec<Limited>,
    /// Whether builds in the kernel's cgroup were measured.
    pub(crate) kernel: Rival<()>,
}

/// The builds that were measured with the same memory limit.
#[derive(Debug)]
pub(crate) struct Limited {
    /// The limit in bytes.
    pub(crate) limit: u64,
    /// The builds in the kernel's cgroup.
    pub(crate) kernel: Option<Build>,
    /// The builds with blocks of 4 KiB, and of 16 KiB.
    pub(crate) ours: [Build; 2],
}

/// The means of the builds on one side.
#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) name: String,
    /// Wall clock time in seconds.
    pub(crate) seconds: f64,
    /// User and system time of all processes, in seconds.
    pub(crate) cpu: f64,
    /// Bytes that were evicted, if known.
    pub(crate) out: Option<f64>,
}

/// Returns the number of builds in `rounds` rounds.
pub(crate) fn count(rounds: u64) -> u64 {
    1 + rounds * (1 + SHARES.len() as u64 * (1 + OURS.len() as u64))
}

/// Builds all C sources below the directory `source` in `rounds` rounds. Each side builds once in a
/// round.
pub(crate) fn builds(source: &Path, rounds: u64, step: impl Fn(&str)) -> Result<Builds, Error> {
    let place = Place::new(Scale { heap: 0, seed: 0 })?;
    let job = prepared(source, &place)?;
    step("alone");
    let alone = run_side(&job, Side::Alone, &place, true)?;
    if !alone.shown.0 {
        let reason = "the compilation by itself".to_owned();
        return Err(Error::ToolFailed { tool: "make", reason, remedy: "run it by hand" });
    }
    let kernel = Kernel::acquire(SWAP)?;
    let mut free = Rounds::new("no limit".to_owned(), Side::Alone, None);
    let limits = SHARES.map(|share| (alone.peak.anonymous as f64 * share) as u64);
    let mut limited = limits.map(|limit| {
        let kernels = Rounds::new("the kernel's cgroup".to_owned(), Side::Kernel(limit), None);
        let kernels = matches!(kernel, Rival::Present(_)).then_some(kernels);
        let ours = OURS.map(|(block, options)| {
            let side = Side::Ours { limit, options, is_confined: false };
            Rounds::new(format!("uzram run, blocks of {block} KiB"), side, Some(block << 10))
        });
        (limit, kernels, ours)
    });
    for round in 0..rounds {
        let with_limit =
            limited.iter_mut().flat_map(|(_, kernels, ours)| kernels.iter_mut().chain(ours));
        let mut sides: Vec<&mut Rounds> = std::iter::once(&mut free).chain(with_limit).collect();
        let turns = sides.len();
        // Each round begins with another side.
        sides.rotate_left(round as usize % turns);
        for Rounds { name, side, outcomes, .. } in sides {
            step(&format!("{name}, round {} of {rounds}", round + 1));
            let outcome = run_side(&job, *side, &place, false)?;
            if outcome.shown != alone.shown {
                let reason = format!("the compilation under {name} comes to something else");
                let remedy = "see its messages on standard error";
                return Err(Error::ToolFailed { tool: "make", reason, remedy });
            }
            outcomes.push(outcome);
        }
    }
    let limited = limited.into_iter().map(|(limit, kernel, ours)| Limited {
        limit,
        kernel: kernel.map(Rounds::mean),
        ours: ours.map(Rounds::mean),
    });
    let limited = limited.collect();
    Ok(Builds { alone: alone.peak.anonymous, free: free.mean(), limited, kernel: kernel.map(drop) })
}

/// The outcomes of the builds on one side.
struct Rounds {
    name: String,
    side: Side,
    /// The size of a block in bytes, if the side runs under `uzram run`.
    block: Option<u64>,
    outcomes: Vec<Outcome>,
}

impl Rounds {
    fn new(name: String, side: Side, block: Option<u64>) -> Rounds {
        Rounds { name, side, block, outcomes: Vec::new() }
    }

    fn mean(self) -> Build {
        let Rounds { name, block, outcomes, .. } = self;
        let mean =
            |of: fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64;
        let evicted = mean(|outcome| outcome.stats.evicted);
        Build {
            name,
            seconds: mean(|outcome| outcome.seconds),
            cpu: mean(|outcome| outcome.cpu),
            out: block.map(|bytes| evicted * bytes as f64),
        }
    }
}

/// Prepares a makefile of all sources and a command that prints a checksum of the object files.
fn prepared(source: &Path, place: &Place) -> Result<Prepared, Error> {
    let makefile = place.file("Makefile", MAKEFILE)?;
    let shell = program("sh").unwrap_or_else(|| "/bin/sh".to_owned());
    let source = source.display();
    let build = format!("make -s -j{JOBS} -f {makefile} SOURCE='{source}' && cat *.o | cksum");
    Ok(Prepared { command: vec![shell, "-c".to_owned(), build], longest: LONGEST })
}

const MAKEFILE: &str = "\
sources := $(shell find $(SOURCE) -name '*.c' | LC_ALL=C sort)
objects := $(notdir $(sources:.c=.o))
vpath %.c $(sort $(dir $(sources)))
all: $(objects)
%.o: %.c
\t$(CC) -O2 -w -DXXH_NAMESPACE=ZSTD_ -DZSTD_LEGACY_SUPPORT=0 -DZSTD_DISABLE_ASM -c $< -o $@
";
