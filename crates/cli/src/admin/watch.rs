//! A line a second of something that runs, until Ctrl-C or its end.

use crate::error::{Error, no_handler};
use crate::log::log;
use signal_hook::consts::SIGINT;
use signal_hook::flag::register_conditional_shutdown;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a line is printed.
const EVERY: Duration = Duration::from_secs(1);

/// The head is printed again after so many lines: what was above has scrolled away.
const LINES: u64 = 20;

/// Characters of a bar, and of what stands in its column.
const BAR: usize = 16;
pub(crate) const BAR_COLUMN: usize = BAR + 7;

/// How the lines are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Json,
    Plain,
    Bars,
}

/// What is watched.
pub(crate) trait Watched {
    /// What is told when it has ended.
    const ENDED: &'static str;

    /// Returns the columns' heads, for people.
    fn head(style: Style) -> String;

    /// Returns the line of this moment; `None`: it has ended.
    ///
    /// # Errors
    /// There is nothing of the kind.
    fn line(&mut self, style: Style) -> Result<Option<String>, Error>;
}

/// Prints until Ctrl-C, or until it ends; neither is an error, if there was something.
pub(crate) fn run<W: Watched>(mut watched: W, is_json: bool) -> Result<(), Error> {
    // At once, though it waits for who does not answer.
    register_conditional_shutdown(SIGINT, 0, Arc::new(AtomicBool::new(true)))
        .map_err(no_handler)?;
    let style = match (is_json, std::io::stdout().is_terminal()) {
        (true, _) => Style::Json,
        (false, true) => Style::Bars,
        (false, false) => Style::Plain,
    };
    let mut next = Instant::now();
    for nth in 0.. {
        let Some(line) = watched.line(style)? else {
            log!("{}", W::ENDED);
            break;
        };
        let has_head = style != Style::Json && nth % LINES == 0;
        let head = if has_head { W::head(style) } else { String::new() };
        if !crate::print_on(&(head + &line))? {
            break;
        }
        next = (next + EVERY).max(Instant::now());
        sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Returns how much of something is used: `[####............]  25%`; without a bound nothing.
pub(crate) fn bar(part: u64, of: u64) -> String {
    if of == 0 {
        return format!("{:<w$}", "-", w = BAR_COLUMN);
    }
    let share = (part as f64 / of as f64).min(1.0);
    let full = (share * BAR as f64).round() as usize;
    format!("[{}{}] {:>3.0}%", "#".repeat(full), ".".repeat(BAR - full), share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_wide_as_their_head() {
        assert_eq!(bar(1, 4), "[####............]  25%");
        assert_eq!(bar(9, 4), format!("[{}] 100%", "#".repeat(BAR)));
        for (part, of) in [(0, 0), (0, 1), (1, 1), (1, 3)] {
            assert_eq!(bar(part, of).len(), BAR_COLUMN, "{part} of {of}");
        }
    }
}
