//! A progress bar with the rate and the remaining time, for terminals only.

use crate::policy::PROGRESS_TICK;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;

const TEMPLATE: &str =
    "{msg:9} [{bar:32}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// A progress bar on standard error that shows the bytes that one phase has processed. The bar is
/// removed when this value and its clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Begins the phase `phase` of `bytes` bytes. The bar is hidden if standard output or standard
    /// error is no terminal.
    pub(crate) fn new(phase: &'static str, bytes: u64) -> Self {
        if !std::io::stderr().is_terminal() || !std::io::stdout().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(bytes).with_message(phase);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress(bar)
    }

    /// Begins a phase with an unknown number of bytes.
    pub(crate) fn unknown(phase: &'static str) -> Self {
        let progress = Progress::new(phase, 0);
        progress.0.set_style(ProgressStyle::default_spinner());
        if !progress.0.is_hidden() {
            progress.0.enable_steady_tick(PROGRESS_TICK);
        }
        progress
    }

    pub(crate) fn is_seen(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Sets the number of processed bytes to `done`, and the total number of bytes to `of` if that
    /// is known.
    pub(crate) fn reach(&self, done: u64, of: Option<u64>) {
        of.inspect(|&of| self.0.set_length(of));
        self.0.set_position(done);
    }

    /// Adds `bytes` to the number of processed bytes.
    pub(crate) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
