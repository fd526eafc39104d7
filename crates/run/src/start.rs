//! A program that is about to start.

use crate::child;
use crate::figures::Figures;
use crate::host;
use crate::launch::{Launch, inject_into, is_dispatched, may_inject};
use crate::refusal::Refusal;
use crate::search;
use crate::settings::Options;
use crate::stats_file::StatsFile;
use crate::tree::Tree;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// A program that can be started under uzram.
#[derive(Debug)]
pub struct Start<'s> {
    name: &'s Path,
    launch: Launch,
    tree: Tree,
    stats: Option<StatsFile>,
}

impl<'s> Start<'s> {
    /// Finds a program, and checks that a host can run it. Calls `adjust` for each command that may
    /// execute the program.
    ///
    /// # Errors
    /// Fails with the reason why the program can't be started.
    pub fn new(
        command: &'s [OsString],
        mut options: Options<'_>,
        adjust: impl Fn(&mut Command),
    ) -> Result<Self, Refusal> {
        let host = host::find()?;
        let none = || Refusal::Failed("no program is named".to_owned());
        let (name, rest) = command.split_first().ok_or_else(none)?;
        let program = search::find(name)?;
        let stats = StatsFile::of(options.stats)?;
        let tree = Tree::new()?;
        options.may_inject &= may_inject();
        let settings = options.settings(&host, &tree, stats.as_ref().map(StatsFile::path))?;
        let begins = |mut command: Command| {
            command.args(rest);
            adjust(&mut command);
            command
        };
        // Within another `uzram run`, the helper's own system calls would be dispatched.
        let is_injected = options.may_inject && program.may_be_injected && !is_dispatched();
        let injected = is_injected.then(|| {
            let mut command = begins(program.command(name));
            inject_into(&mut command, &host, &settings);
            command
        });
        let launch = Launch { injected, hosted: begins(program.hosted(name, &host, &settings)) };
        Ok(Start { name: Path::new(name), launch, tree, stats })
    }

    /// Executes the program in place of this process. If the execution fails, returns the reason.
    pub fn exec(self) -> Refusal {
        Refusal::of_start(self.name, &self.launch.exec())
    }

    /// Starts the program as a child, forwards signals to the program, and waits for its end.
    /// Returns the figures of its processes, and an exit code that reports how the program ended.
    /// `ignored` has a bit for each signal that this process ignores.
    ///
    /// # Errors
    /// Fails with the reason why the program can't be started or its figures can't be read.
    pub fn watch(self, ignored: u64) -> Result<(u8, Figures), Refusal> {
        let code = child::run(self.launch, self.name, ignored)?;
        let figures = self.stats.map(|stats| stats.figures(self.tree.seen().as_ref()));
        Ok((code, figures.transpose()?.unwrap_or_default()))
    }
}
