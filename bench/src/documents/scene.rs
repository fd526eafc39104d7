//! The settings of an experiment and the report of its progress.

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::results::State;
use crate::experiments::Request;
use crate::report::{Bound, Figure};

const TEMPLATE: &str = "{prefix} [{bar:24}] {elapsed}, {msg}";
/// The interval at which the display of the elapsed time is updated.
const TICK: Duration = Duration::from_millis(200);

/// The settings and the progress of one experiment.
pub(crate) struct Scene<'a> {
    pub(crate) request: &'a Request,
    /// Whether the run is quick, and so measures less.
    pub(crate) quick: bool,
    name: String,
    bar: ProgressBar,
}

impl<'a> Scene<'a> {
    /// Returns the scene of the experiment `name`: number `nth` (from 0) of `all` experiments.
    pub(super) fn new(
        request: &'a Request,
        quick: bool,
        name: String,
        (nth, all): (usize, usize),
    ) -> Scene<'a> {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(0),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_prefix(format!("{} of {all}, {name}:", nth + 1));
        bar.enable_steady_tick(TICK);
        Scene { request, quick, name, bar }
    }

    /// Sets the number of steps of the experiment. All steps take about the same time.
    pub(crate) fn expects(&self, steps: usize) {
        self.bar.set_length(steps as u64);
    }

    /// Reports that the step `what` begins. On a terminal this advances the progress bar, otherwise
    /// it prints a line.
    pub(crate) fn step(&self, what: impl Display) {
        if self.bar.is_hidden() {
            eprintln!("bench: {}: {what}", self.name);
        } else {
            // Counts the previous step as done, unless this is the first step.
            if !self.bar.message().is_empty() {
                self.bar.inc(1);
            }
            self.bar.set_message(what.to_string());
        }
    }

    /// Returns `quick` in a quick run, otherwise `whole`.
    pub(crate) fn of<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// Adds the bound to the figure, except in a quick run, which measures too little to check a
    /// bound.
    pub(crate) fn judged(&self, figure: Figure, bound: Bound) -> Figure {
        if self.quick { figure } else { figure.must(bound) }
    }

    /// Reports how the experiment ended.
    pub(super) fn end(&self, state: &State) {
        self.bar.finish_and_clear();
        eprintln!("bench: {}: {state}", self.name);
    }
}
