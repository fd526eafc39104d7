//! `uzram run`: a host runs a program with its memory compressed.
//!
//! ```text
//!   search: PATH, interpreters -> executable, rights: can a host run it?
//!     -> launch: a helper, which injects a host; the program | the host SETTINGS FILE ...
//!     no --stats: the program takes the place of this one
//!     --stats:    child: signals passed on, its end -> stats_file -> figures: table or JSON
//! ```

mod args;
mod child;
pub(crate) mod figures;
mod host;
mod launch;
pub(crate) mod live;
mod refusal;
mod rights;
mod search;
mod stats_file;
pub(crate) mod table;
mod tree;

use crate::error::{Error, failed};
use crate::log;
use crate::memory::cgroup_limit;
use crate::process_start::keep_pipe_signal;
pub(crate) use args::RunArgs;
use launch::{Launch, inject_into, is_dispatched, may_inject};
use refusal::Refusal;
use rustix::fs::fstat;
use rustix::stdio::stderr;
use stats_file::StatsFile;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use tree::Tree;
use zcomp::Params;

/// The version of this command and of its host.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs `uzram run`. Returns the exit code, or does not return if the program replaces this
/// process.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    start(args).unwrap_or_else(Refusal::report)
}

fn start(args: &RunArgs) -> Result<ExitCode, Refusal> {
    if !cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
        return Err(failed(
            "programs can't be run with their memory compressed: that is done on x86-64 only; run \
             them without 'uzram run'",
        )
        .into());
    }
    let limit = args.limit.unwrap_or_default().bytes(cgroup_limit)?;
    let host = host::find()?;
    let (name, rest) = args.command.split_first().ok_or_else(|| failed("no program is named"))?;
    let program = search::find(name)?;
    let stats = StatsFile::of(args)?;
    let tree = Tree::new()?;
    let may_inject = !args.no_inject && may_inject();
    let mut settings = settings(args, limit, &tree, stats.as_ref().map(StatsFile::path))?;
    if may_inject {
        settings.push(",inject=1");
    }
    settings.push(",host=");
    settings.push(&host);
    let begins = |mut command: Command| {
        command.args(rest);
        keep_pipe_signal(&mut command);
        command
    };
    // Within another `uzram run`, the calls of the helper would be handled as calls of a program.
    let is_injected = may_inject && program.may_be_injected && !is_dispatched();
    let injected = is_injected.then(|| {
        let mut command = begins(program.command(name));
        inject_into(&mut command, &host, &settings);
        command
    });
    let launch = Launch { injected, hosted: begins(program.hosted(name, &host, &settings)) };
    let Some(stats) = stats.filter(|_| args.stats) else {
        return Err(Refusal::of_start(Path::new(name), &launch.exec()));
    };
    let code = child::run(launch, Path::new(name))?;
    let figures = stats.figures(tree.seen().as_ref())?;
    log::text(&if args.json { figures.json() } else { table::table(&figures) });
    Ok(code)
}

/// Returns the settings of the runtime: `NAME=VALUE`, separated by commas.
fn settings(
    args: &RunArgs,
    limit: u64,
    tree: &Tree,
    stats: Option<&Path>,
) -> Result<OsString, Error> {
    let (block, algorithm) = (args.block, args.algorithm.name());
    let mut text = OsString::from(format!(
        "version={VERSION},limit={limit},block={block},algorithm={algorithm},backend={},{}",
        args.backend, tree.setting
    ));
    if let Some(level) = args.level {
        let params = Params { level: Some(level), ..Params::default() };
        args.algorithm.check(&params).map_err(Error::level)?;
        text.push(format!(",level={level}"));
    }
    if let Ok(stderr) = fstat(stderr()) {
        text.push(format!(",stderr={}:{}", stderr.st_dev, stderr.st_ino));
    }
    if args.first_only {
        text.push(",first-only=1");
    }
    if let Some(path) = stats {
        if path.as_os_str().as_bytes().contains(&b',') {
            return Err(stats_file::comma(path));
        }
        text.push(",stats=");
        text.push(path);
    }
    Ok(text)
}
