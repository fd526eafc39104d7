//! `uzram stat --watch`: one line per second about a served device.

use super::parsed;
use crate::admin::watch::{Style, Watched};
use crate::error::{Error, failed};
use crate::log::log;
use crate::status::Stat;
use crate::text::human;
use serve::control::{AskError, Request, ask};
use std::path::PathBuf;

/// The served device about which lines are printed.
pub(super) struct Disk {
    control: PathBuf,
    has_answered: bool,
}

impl Disk {
    pub(super) fn new(control: PathBuf) -> Self {
        Disk { control, has_answered: false }
    }
}

impl Watched for Disk {
    const ENDED: &'static str = "the server has ended";

    fn head(style: Style) -> String {
        let columns = format!(
            "{:>10} {:>10} {:>10} {:>7} {:>7}",
            "DATA", "COMPR", "MEMORY", "RATIO", "CLIENTS"
        );
        style.head(&columns, ["DISK", "LIMIT"], "JOB")
    }

    fn line(&mut self, style: Style) -> Result<Option<String>, Error> {
        let mut stat = Vec::new();
        match ask(&Request::Stat, &self.control, &mut stat) {
            Ok(()) => self.has_answered = true,
            Err(error) if !self.has_answered => return Err(failed(error)),
            Err(AskError::Unreached { .. }) => return Ok(None),
            // The server may be busy or about to end. The next request shows whether the server has
            // ended.
            Err(AskError::Broken(_)) => return Ok(Some(String::new())),
            Err(error) => {
                log!("{error}");
                return Ok(Some(String::new()));
            }
        }
        let stat = String::from_utf8_lossy(&stat).into_owned();
        Ok(Some(if style == Style::Json { stat } else { line(&parsed(&stat)?, style) }))
    }
}

fn line(stat: &Stat, style: Style) -> String {
    let ratio = match stat.mem_total {
        0 => 0.0,
        bytes => stat.orig_data_size as f64 / bytes as f64,
    };
    let (data, compressed) = (human(stat.orig_data_size), human(stat.compr_data_size));
    let (memory, clients) = (human(stat.mem_total), stat.connections);
    let columns = format!("{data:>10} {compressed:>10} {memory:>10} {ratio:>7.2} {clients:>7}");
    let bars = [(stat.orig_data_size, stat.disksize), (stat.mem_used_total, stat.mem_limit)];
    let job = stat.job.as_ref().map_or_else(
        || "-".to_owned(),
        |job| match job.of {
            0 => job.kind.clone(),
            of => format!("{} {}%", job.kind, 100 * job.done / of),
        },
    );
    style.values(&columns, bars, &job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::RunningJob;

    #[test]
    fn a_line_stands_below_its_head() {
        let stat = Stat {
            disksize: 1 << 30,
            orig_data_size: 1 << 29,
            mem_total: 1 << 27,
            job: Some(RunningJob { kind: "save".to_owned(), done: 1, of: 4 }),
            ..Stat::default()
        };
        for style in [Style::Plain, Style::Bars(16), Style::Bars(0)] {
            let (head, line) = (Disk::head(style), line(&stat, style));
            assert_eq!(head.find("JOB"), line.find("save 25%"), "{head}{line}");
            assert!(line.contains("4.00") && line.contains("512.0 MiB"), "{line}");
            let has_bar = line.contains("[########........]  50%");
            assert_eq!(has_bar, style == Style::Bars(16), "{line}");
        }
    }
}
