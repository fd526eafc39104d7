//! A compilation of many jobs under a limit of memory: ours with blocks of 4 and of 16 KiB, and the
//! kernel's cgroup with swap on zram.

use std::path::Path;

use super::Scale;
use super::jobs::Prepared;
use super::place::{Place, program};
use super::side::{Kernel, Outcome, Side, run as run_side};
use crate::Error;
use crate::kernel::Rival;

/// Jobs at once.
const JOBS: u32 = 8;
/// The limit is this share of what it takes alone.
const SHARE: f64 = 0.6;
/// Bytes of the kernel's swap.
const SWAP: u64 = 2 << 30;
/// Each of our sides, with its options.
const OURS: [(&str, &[&str]); 2] = [
    ("uzram run, blocks of 4 KiB", &["--algorithm", "zstd", "--block", "4K"]),
    ("uzram run, blocks of 16 KiB", &["--algorithm", "zstd", "--block", "16K"]),
];

/// What all builds took.
#[derive(Debug)]
pub(crate) struct Builds {
    /// Bytes of the limit.
    pub(crate) limit: u64,
    /// Bytes that it takes alone.
    pub(crate) alone: u64,
    pub(crate) sides: Vec<Build>,
    /// Why the kernel is not among them.
    pub(crate) no_kernel: Option<String>,
}

/// What builds took on one side, as means.
#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) name: &'static str,
    /// Wall clock, in seconds.
    pub(crate) seconds: f64,
    /// User and system time of all processes, in seconds.
    pub(crate) cpu: f64,
}

/// Builds all C sources below a directory, in rounds, each side once in a round.
pub(crate) fn builds(source: &Path, rounds: u64, step: impl Fn(&str)) -> Result<Builds, Error> {
    let place = Place::new(Scale { heap: 0, seed: 0 })?;
    let job = prepared(source, &place)?;
    step("alone");
    let alone = run_side(&job, Side::Alone, &place, true)?;
    if !alone.shown.0 {
        let reason = "the compilation by itself".to_owned();
        return Err(Error::ToolFailed { tool: "make", reason, remedy: "run it by hand" });
    }
    let limit = (alone.peak.anonymous as f64 * SHARE) as u64;
    let kernel = Kernel::acquire(SWAP)?;
    let mut sides = vec![("no limit", Side::Alone, Vec::new())];
    if let Rival::Present(_) = &kernel {
        sides.push(("the kernel's cgroup", Side::Kernel(limit), Vec::new()));
    }
    for (name, options) in OURS {
        sides.push((name, Side::Ours { limit, options, is_confined: false }, Vec::new()));
    }
    for round in 0..rounds {
        for (name, side, outcomes) in &mut sides {
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
    let no_kernel = match kernel {
        Rival::Present(_) => None,
        Rival::Absent(reason) => Some(reason),
    };
    let sides = sides.into_iter().map(|(name, _, outcomes)| Build {
        name,
        seconds: mean(&outcomes, |outcome| outcome.seconds),
        cpu: mean(&outcomes, |outcome| outcome.cpu),
    });
    Ok(Builds { limit, alone: alone.peak.anonymous, sides: sides.collect(), no_kernel })
}

/// A makefile of all sources, and a sum of what they become.
fn prepared(source: &Path, place: &Place) -> Result<Prepared, Error> {
    let makefile = place.file("Makefile", MAKEFILE)?;
    let shell = program("sh").unwrap_or_else(|| "/bin/sh".to_owned());
    let source = source.display();
    let build = format!("make -s -j{JOBS} -f {makefile} SOURCE={source} && cat *.o | cksum");
    Ok(Prepared { command: vec![shell, "-c".to_owned(), build] })
}

const MAKEFILE: &str = "\
sources := $(shell find $(SOURCE) -name '*.c' | LC_ALL=C sort)
objects := $(notdir $(sources:.c=.o))
vpath %.c $(sort $(dir $(sources)))
all: $(objects)
%.o: %.c
\t$(CC) -O2 -w -DXXH_NAMESPACE=ZSTD_ -DZSTD_LEGACY_SUPPORT=0 -DZSTD_DISABLE_ASM -c $< -o $@
";

fn mean(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64
}
