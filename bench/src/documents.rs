//! Repeats the experiments of five documents: the kernel's document on zsmalloc, and descriptions
//! of patches that uzram implements. An experiment also measures the kernel of this machine if the
//! kernel can do the same work.
//!
//! ```text
//!   bench experiments [NAME...] -> needs: what is missing? -> an experiment -> Found
//!     -> Results -> results.json, report.md (markdown), report.html (html, chart)
//! ```

mod artifacts;
mod build;
mod chart;
mod classes;
mod disk;
mod found;
mod html;
mod markdown;
pub mod messaging;
mod needs;
mod pieces;
mod results;
mod scene;
mod slabinfo;
mod swap;
mod untar;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use tempfile::NamedTempFile;

use crate::Error;
use crate::experiments::Request;
use crate::inputs::Cache;
use crate::report::Verdict;
use crate::undo::catch_signals;
use found::Found;
pub use html::report as html;
pub use markdown::report as markdown;
use needs::Need;
pub use results::Results;
use results::{Machine, Outcome, RESULTS, State};
use scene::Scene;

const REMEDY: &str = "give a directory of yours by --out";

/// The name of an experiment of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Unpack a source tree on a disk and remove it directory by directory
    Untar,
    /// Copy pieces of many sizes from a text to a disk, with page chains of increasing length
    Pieces,
    /// Compute the tables of size classes for chains of 4 to 16 pages
    Classes,
    /// Store the object files of a compilation with page chains of 4 and 8 pages
    Artifacts,
    /// Evict memory and fill it again a hundred times, in blocks of 4, 16 and 64 KiB
    Swap,
    /// Compile with parallel jobs under a memory limit, in blocks of 4 and 16 KiB
    Build,
    /// Count the objects that fit in a slab, before and after the management data moved out of the
    /// slab
    Slabinfo,
    /// Exchange messages between groups of threads: cache misses and time
    Messaging,
}

/// The arguments of `bench experiments`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Ends with 0 if all that ran is what it must be, 1 if something is not or \
    has failed, 2 on wrong use, 130 on a signal; the report says so of each. What needs root, a \
    package or room that is not there is skipped, with the reason. Inputs are kept in \
    UZRAM_BENCH_DIR, temporary files in TMPDIR.")]
pub struct Arguments {
    /// The experiments to run (default: all, in this order)
    #[arg(value_enum, value_name = "NAME")]
    names: Vec<Name>,
    /// Run a shorter form of each experiment (five minutes in all), and do not check bounds that
    /// need more data
    #[arg(long)]
    quick: bool,
    /// Directory for report.md, report.html and results.json
    #[arg(long, value_name = "DIR", default_value = "target/experiments")]
    out: PathBuf,
    /// Also print results.json on standard output
    #[arg(long)]
    json: bool,
}

/// An experiment, and its description in the report.
struct Experiment {
    name: Name,
    /// The document that the experiment repeats.
    source: &'static str,
    /// The question that the experiment answers, and the work that it runs.
    about: &'static str,
    needs: fn(bool) -> Vec<Need>,
    /// Creates the input in the cache. Does nothing if the cache contains the input, or if no other
    /// experiment uses it.
    input: fn(&Cache) -> Result<(), Error>,
    run: fn(&Scene<'_>) -> Result<Found, Error>,
}

const ALL: [Experiment; 8] = [
    untar::EXPERIMENT,
    pieces::EXPERIMENT,
    classes::EXPERIMENT,
    artifacts::EXPERIMENT,
    swap::EXPERIMENT,
    build::EXPERIMENT,
    slabinfo::EXPERIMENT,
    messaging::EXPERIMENT,
];

impl Name {
    /// Returns the experiment's name on the command line.
    fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Runs the chosen experiments one after the other and writes the report. If an experiment can't
/// run on this machine, the report contains the reason.
///
/// # Errors
/// Fails if the report can't be written.
pub fn run(arguments: &Arguments, request: &Request) -> Result<Verdict, Error> {
    let Arguments { names, quick, out, json } = arguments;
    catch_signals()?;
    // If the directory can't be written, fails before any measurement.
    fs::create_dir_all(out).map_err(Error::file("create", out, REMEDY))?;
    NamedTempFile::new_in(out).map_err(Error::file("write in", out, REMEDY))?;
    let wanted = |experiment: &&Experiment| names.is_empty() || names.contains(&experiment.name);
    let chosen: Vec<&Experiment> = ALL.iter().filter(wanted).collect();
    let machine = Machine::this(request.seed, *quick);
    let mut experiments = Vec::new();
    for (nth, experiment) in chosen.iter().enumerate() {
        let scene = Scene::new(request, *quick, experiment.name.text(), (nth, chosen.len()));
        experiments.push(experiment.outcome(&scene));
    }
    let results = Results { machine, experiments };
    if *json {
        let told = writeln!(io::stdout(), "{}", results.json());
        let place = Path::new("standard output");
        told.map_err(Error::file("write to", place, "see that its reader goes on"))?;
    }
    write(&results, out)?;
    eprintln!("bench: the report is {}", out.join("report.html").display());
    Ok(results.verdict())
}

fn write(results: &Results, dir: &Path) -> Result<(), Error> {
    let texts = [results.json() + "\n", markdown(results), html(results)];
    for (name, text) in [RESULTS, "report.md", "report.html"].iter().zip(texts) {
        let path = dir.join(name);
        fs::write(&path, text).map_err(Error::file("write", &path, REMEDY))?;
    }
    Ok(())
}

impl Experiment {
    fn outcome(&self, scene: &Scene<'_>) -> Outcome {
        let lacking: Vec<String> =
            (self.needs)(scene.quick).iter().filter_map(Need::lacking).collect();
        let begun = Instant::now();
        let missing = match lacking.is_empty() {
            false => Some(lacking.join("; ")),
            true => (self.input)(&scene.request.cache).err().map(|error| error.to_string()),
        };
        let (state, found) = match missing {
            Some(reason) => (State::Skipped { reason }, Found::default()),
            None => match (self.run)(scene) {
                Ok(found) => (State::Done, found),
                Err(error) => (State::Failed { reason: error.to_string() }, Found::default()),
            },
        };
        scene.end(&state);
        Outcome {
            name: self.name.text(),
            source: self.source.to_owned(),
            about: self.about.to_owned(),
            seconds: begun.elapsed().as_secs_f64().round(),
            state,
            found,
        }
    }
}
