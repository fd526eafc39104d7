//! A progress bar with rate and time left, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::Duration;

const TEMPLATE: &str =
    "{msg:9} [{bar:32}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// How often something moves while nothing is known.
const TICK: Duration = Duration::from_millis(100);

/// Bytes done, of one phase. Drawn on standard error until it is finished.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Begins a phase of this name over `bytes` bytes. Invisible where any output is piped.
    pub fn new(phase: &'static str, bytes: u64) -> Self {
        if !std::io::stderr().is_terminal() || !std::io::stdout().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(bytes).with_message(phase);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress(bar)
    }

    /// Begins a phase whose length is unknown.
    pub fn unknown(phase: &'static str) -> Self {
        let progress = Progress::new(phase, 0);
        progress.0.set_style(ProgressStyle::default_spinner());
        if !progress.0.is_hidden() {
            progress.0.enable_steady_tick(TICK);
        }
        progress
    }

    /// Returns whether it is drawn on a terminal.
    pub fn is_seen(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Notes that `done` bytes are done, of `of` if that is known.
    pub fn reach(&self, done: u64, of: Option<u64>) {
        of.inspect(|&of| self.0.set_length(of));
        self.0.set_position(done);
    }

    /// Notes that `bytes` more bytes are done.
    pub fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Ends the phase, and removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
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
