//! `uzram stat --watch`: a line a second, until Ctrl-C or the end of the server.

use super::{parsed, text};
use crate::error::{Error, no_handler};
use crate::log::log;
use crate::status::Stat;
use measure::Interrupt;
use measure::text::human;
use serve::control::Request;
use std::io::IsTerminal as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a line is printed, and how often Ctrl-C is looked for.
const EVERY: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(50);

/// The head is printed again after so many lines: what was above has scrolled away.
const LINES: u64 = 20;

/// Characters of a bar.
const BAR: usize = 16;

/// How the lines are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    Plain,
    Bars,
}

/// Prints until Ctrl-C, or until the server ends; neither is an error, if there was a server.
pub(super) fn run(control: &Path, is_json: bool) -> Result<(), Error> {
    let interrupt = Interrupt::install().map_err(no_handler)?;
    let style = match (is_json, std::io::stdout().is_terminal()) {
        (true, _) => Style::Json,
        (false, true) => Style::Bars,
        (false, false) => Style::Plain,
    };
    let mut next = Instant::now();
    for nth in 0.. {
        let stat = match text(control, &Request::Stat) {
            Err(error) if nth == 0 => return Err(error),
            Err(_) => {
                log!("the server has ended, and the disk with it");
                break;
            }
            Ok(stat) => stat,
        };
        let head = if nth % LINES == 0 { head(style) } else { String::new() };
        let line = if style == Style::Json { stat } else { line(&parsed(&stat)?, style) };
        if !crate::print_on(&(head + &line))? {
            break;
        }
        next = (next + EVERY).max(Instant::now());
        while Instant::now() < next && !interrupt.is_set() {
            sleep(TICK.min(next.saturating_duration_since(Instant::now())));
        }
        if interrupt.is_set() {
            break;
        }
    }
    Ok(())
}

fn head(style: Style) -> String {
    let columns =
        format!("{:>10} {:>10} {:>10} {:>7} {:>7}", "DATA", "COMPR", "MEMORY", "RATIO", "CLIENTS");
    match style {
        Style::Json => String::new(),
        Style::Plain => format!("{columns}  JOB\n"),
        Style::Bars => format!("{columns}  {:<w$}  {:<w$}  JOB\n", "DISK", "LIMIT", w = BAR + 7),
    }
}

fn line(stat: &Stat, style: Style) -> String {
    let ratio = match stat.mem_total {
        0 => 0.0,
        bytes => stat.orig_data_size as f64 / bytes as f64,
    };
    let (data, compressed) = (human(stat.orig_data_size), human(stat.compr_data_size));
    let (memory, clients) = (human(stat.mem_total), stat.connections);
    let mut line = format!("{data:>10} {compressed:>10} {memory:>10} {ratio:>7.2} {clients:>7}");
    if style == Style::Bars {
        let bars = [(stat.orig_data_size, stat.disksize), (stat.mem_used_total, stat.mem_limit)];
        bars.iter().for_each(|&(part, of)| line += &format!("  {}", bar(part, of)));
    }
    let job = stat.job.as_ref().map_or_else(
        || "-".to_owned(),
        |job| match job.of {
            0 => job.kind.clone(),
            of => format!("{} {}%", job.kind, 100 * job.done / of),
        },
    );
    format!("{line}  {job}\n")
}

/// Returns how much of something is used: `[####............]  25%`; without a bound nothing.
fn bar(part: u64, of: u64) -> String {
    if of == 0 {
        return format!("{:<w$}", "-", w = BAR + 7);
    }
    let share = (part as f64 / of as f64).min(1.0);
    let full = (share * BAR as f64).round() as usize;
    format!("[{}{}] {:>3.0}%", "#".repeat(full), ".".repeat(BAR - full), share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::RunningJob;

    #[test]
    fn bars_are_as_wide_as_their_head() {
        assert_eq!(bar(1, 4), "[####............]  25%");
        assert_eq!(bar(9, 4), format!("[{}] 100%", "#".repeat(BAR)));
        for (part, of) in [(0, 0), (0, 1), (1, 1), (1, 3)] {
            assert_eq!(bar(part, of).len(), BAR + 7, "{part} of {of}");
        }
    }

    #[test]
    fn a_line_stands_below_its_head() {
        let stat = Stat {
            disksize: 1 << 30,
            orig_data_size: 1 << 29,
            mem_total: 1 << 27,
            job: Some(RunningJob { kind: "save".to_owned(), done: 1, of: 4 }),
            ..Stat::default()
        };
        for style in [Style::Plain, Style::Bars] {
            let (head, line) = (head(style), line(&stat, style));
            assert_eq!(head.find("JOB"), line.find("save 25%"), "{head}{line}");
            assert!(line.contains("4.00") && line.contains("512.0 MiB"), "{line}");
            assert_eq!(line.contains("[########........]  50%"), style == Style::Bars, "{line}");
        }
    }
}
