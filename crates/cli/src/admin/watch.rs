//! Prints one line per second about a server or program. Ends at Ctrl-C, or when the server or
//! program ends.

use crate::error::{Error, no_handler};
use crate::log::log;
use crate::policy::{WATCH_BAR, WATCH_BESIDE, WATCH_EVERY, WATCH_LINES};
use rustix::termios::tcgetwinsize;
use signal_hook::consts::SIGINT;
use signal_hook::flag::register_conditional_shutdown;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Instant;

/// The format of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Json,
    Plain,
    /// The width of each bar in characters; 0 means lines without bars.
    Bars(usize),
}

impl Style {
    fn new(is_json: bool) -> Self {
        let out = std::io::stdout();
        match (is_json, out.is_terminal()) {
            (true, _) => Style::Json,
            (false, true) => Style::Bars(bar_width(tcgetwinsize(out).map_or(0, |of| of.ws_col))),
            (false, false) => Style::Plain,
        }
    }

    /// Returns a line of column heads: `columns`, then `bars` if the lines have bars, then `last`.
    pub(crate) fn head(self, columns: &str, bars: [&str; 2], last: &str) -> String {
        self.line(columns, bars, last, |head, width| format!("{head:<0$}", bar_column(width)))
    }

    /// Returns a line: `columns`, then, if the lines have bars, a bar for each pair of a part and
    /// its whole in `bars`, then `last`.
    pub(crate) fn values(self, columns: &str, bars: [(u64, u64); 2], last: &str) -> String {
        self.line(columns, bars, last, |(part, of), width| bar(part, of, width))
    }

    fn line<B>(
        self,
        columns: &str,
        bars: [B; 2],
        last: &str,
        text: impl Fn(B, usize) -> String,
    ) -> String {
        match self {
            Style::Bars(width) => {
                let [first, second] = bars.map(|bar| text(bar, width));
                format!("{columns}  {first}  {second}  {last}\n")
            }
            _ => format!("{columns}  {last}\n"),
        }
    }
}

/// Returns the width of each of two bars, in characters, on a terminal of `columns` columns. If
/// `columns` is 0, the terminal's width is unknown.
fn bar_width(columns: u16) -> usize {
    match usize::from(columns) {
        0 => *WATCH_BAR.end(),
        columns => {
            let each = columns.saturating_sub(WATCH_BESIDE) / 2;
            if each < *WATCH_BAR.start() { 0 } else { each.min(*WATCH_BAR.end()) }
        }
    }
}

/// Returns the width of a bar's column in characters.
fn bar_column(bar: usize) -> usize {
    if bar == 0 { 6 } else { bar + 7 }
}

/// A server or program about which lines are printed.
pub(crate) trait Watched {
    /// The message that is logged when the server or program has ended.
    const ENDED: &'static str;

    /// Returns the heads of the columns.
    fn head(style: Style) -> String;

    /// Returns the current line, or `None` if the watched server or program has ended.
    ///
    /// # Errors
    /// Fails if the server or program does not exist.
    fn line(&mut self, style: Style) -> Result<Option<String>, Error>;
}

/// Prints lines until Ctrl-C, or until the watched server or program ends. After the first line,
/// the end of the server or program is no error.
pub(crate) fn run<W: Watched>(mut watched: W, is_json: bool) -> Result<(), Error> {
    // Ctrl-C ends the process at once, even while it waits for a server that does not answer.
    register_conditional_shutdown(SIGINT, 0, Arc::new(AtomicBool::new(true)))
        .map_err(no_handler)?;
    let style = Style::new(is_json);
    let mut next = Instant::now();
    for nth in 0.. {
        let Some(line) = watched.line(style)? else {
            log!("{}", W::ENDED);
            break;
        };
        let has_head = style != Style::Json && nth % WATCH_LINES == 0;
        let head = if has_head { W::head(style) } else { String::new() };
        if !crate::print_on(&(head + &line))? {
            break;
        }
        next = (next + WATCH_EVERY).max(Instant::now());
        sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Returns a bar that shows the share `part / of`: `[####............] 25%`, or "-" if `of` is 0.
fn bar(part: u64, of: u64, width: usize) -> String {
    let column = bar_column(width);
    if of == 0 {
        return format!("{:<column$}", "-");
    }
    let share = (part as f64 / of as f64).min(1.0);
    let full = (share * width as f64).round() as usize;
    let percent = format!("{:>3.0}%", share * 100.0);
    match width {
        0 => format!("{percent:<column$}"),
        _ => format!("[{}{}] {percent}", "#".repeat(full), ".".repeat(width - full)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_wide_as_their_head() {
        assert_eq!(bar(1, 4, 16), "[####............]  25%");
        assert_eq!(bar(9, 4, 4), "[####] 100%");
        assert_eq!(bar(1, 4, 0), " 25%  ");
        for (part, of) in [(0, 0), (0, 1), (1, 1), (1, 3)] {
            for width in [0, 4, 16] {
                assert_eq!(bar(part, of, width).len(), bar_column(width), "{part} of {of}");
            }
        }
    }

    #[test]
    fn bars_are_as_wide_as_the_terminal_lets_them() {
        for (columns, width) in [(0, 16), (1, 0), (80, 0), (90, 4), (100, 9), (200, 16)] {
            assert_eq!(bar_width(columns), width, "{columns} columns");
            let line = WATCH_BESIDE - 2 * 9 + 2 * (2 + bar_column(width));
            assert!(line <= usize::from(columns).max(80) || columns == 0, "{columns} columns");
        }
    }
}
