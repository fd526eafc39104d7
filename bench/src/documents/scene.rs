//! What an experiment is given, and how it tells where it is.

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::results::State;
use crate::experiments::Request;
use crate::report::{Bound, Figure};

const TEMPLATE: &str = "{prefix} [{bar:24}] {elapsed}, {msg}";
/// How often the time is written anew.
const TICK: Duration = Duration::from_millis(200);

/// See the head of this file.
pub(crate) struct Scene<'a> {
    pub(crate) request: &'a Request,
    /// Whether less is to be measured.
    pub(crate) quick: bool,
    name: String,
    bar: ProgressBar,
}

impl<'a> Scene<'a> {
    /// Of the experiment `name`, the first of so many, counted from 0.
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

    /// Says how many steps there are, about as long as each other.
    pub(crate) fn expects(&self, steps: usize) {
        self.bar.set_length(steps as u64);
    }

    /// Tells what is done now: on a terminal the bar goes on, elsewhere it is a line.
    pub(crate) fn step(&self, what: impl Display) {
        if self.bar.is_hidden() {
            eprintln!("bench: {}: {what}", self.name);
        } else {
            // The step before is done; of the first there is none.
            if !self.bar.message().is_empty() {
                self.bar.inc(1);
            }
            self.bar.set_message(what.to_string());
        }
    }

    /// Returns `whole`, or `quick` where less is to be measured.
    pub(crate) fn of<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// Has a figure be judged, but where too little was measured for that.
    pub(crate) fn judged(&self, figure: Figure, bound: Bound) -> Figure {
        if self.quick { figure } else { figure.must(bound) }
    }

    /// Tells how it ended.
    pub(super) fn end(&self, state: &State) {
        self.bar.finish_and_clear();
        eprintln!("bench: {}: {state}", self.name);
    }
}
