//! Prints figures and their bounds: as an aligned table for people, or as lines of JSON for
//! programs.

mod bound;
mod figure;

use std::io::{self, Write};
use std::path::Path;

pub use bound::Bound;
pub use figure::{Figure, Line};

use crate::{Error, processor};

/// The output format of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One aligned table, which is printed at the end of the run.
    Table,
    /// One JSON object per figure and line, each printed as soon as it is known.
    Json,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every figure with a bound meets it.
    Pass,
    /// At least one figure misses its bound.
    Fail,
}

/// The figures of a run.
pub struct Report<'out> {
    form: Form,
    seed: u64,
    processor: String,
    out: &'out mut dyn Write,
    figures: Vec<Figure>,
}

impl<'out> Report<'out> {
    /// Returns an empty report that prints to `out`. Every JSON figure, or the head of the table,
    /// includes `seed` and the processor's name.
    pub fn new(form: Form, seed: u64, out: &'out mut dyn Write) -> Report<'out> {
        Report { form, seed, processor: processor::name(), out, figures: Vec::new() }
    }

    /// Adds a figure.
    pub fn add(&mut self, figure: Figure) -> Result<(), Error> {
        if self.form == Form::Json {
            let line = figure.json(self.seed, &self.processor);
            writeln!(self.out, "{line}").and_then(|()| self.out.flush()).map_err(refused())?;
        }
        self.figures.push(figure);
        Ok(())
    }

    /// Returns the figures instead of printing the table.
    pub fn into_figures(self) -> Vec<Figure> {
        self.figures
    }

    /// Prints the table if the format is [`Form::Table`], and returns the verdict.
    pub fn finish(mut self) -> Result<Verdict, Error> {
        if self.form == Form::Table {
            self.table().map_err(refused())?;
        }
        let failed = self.figures.iter().any(|figure| figure.pass() == Some(false));
        Ok(if failed { Verdict::Fail } else { Verdict::Pass })
    }

    fn table(&mut self) -> io::Result<()> {
        const HEAD: [&str; 8] =
            ["experiment", "figure", "value", "unit", "must", "pass", "rival", "rival value"];
        // The columns of numbers, which are right-aligned.
        const RIGHT: [usize; 2] = [2, 7];
        let rows: Vec<[String; 8]> = std::iter::once(HEAD.map(String::from))
            .chain(self.figures.iter().map(Figure::row))
            .collect();
        let mut widths = [0; 8];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        writeln!(self.out, "seed {:#x}, {}", self.seed, self.processor)?;
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if RIGHT.contains(&column) {
                    line.push_str(&format!("{cell:>width$}  "));
                } else {
                    line.push_str(&format!("{cell:<width$}  "));
                }
            }
            writeln!(self.out, "{}", line.trim_end())?;
        }
        self.out.flush()
    }
}

fn refused() -> impl FnOnce(io::Error) -> Error {
    Error::file("write to", Path::new("standard output"), "send it to a file that can take it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Vec<Figure> {
        vec![
            Figure::new("demo", "overhead", 1.5, "%")
                .must(Bound::at_most(2.0))
                .rival("kernel zram", 2.79),
            Figure::new("demo", "speed", 0.5, "ratio").must(Bound::at_least(0.85)),
            Figure::new("demo", "pages", 3.0, "pages").rival_absent("no zram-control"),
            Figure::missing("demo", "rival's speed", "MB/s").rival_absent("no zram-control"),
        ]
    }

    fn printed(form: Form) -> (String, Verdict) {
        let mut out = Vec::new();
        let mut report = Report::new(form, 0x5eed, &mut out);
        for figure in figures() {
            report.add(figure).unwrap();
        }
        let verdict = report.finish().unwrap();
        (String::from_utf8(out).unwrap(), verdict)
    }

    #[test]
    fn json_lines_read_back() {
        let (text, verdict) = printed(Form::Json);
        assert_eq!(verdict, Verdict::Fail);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0]["experiment"], "demo");
        assert_eq!(lines[0]["figure"], "overhead");
        assert_eq!(lines[0]["value"], 1.5);
        assert_eq!(lines[0]["unit"], "%");
        assert_eq!(lines[0]["must"], "<= 2");
        assert_eq!(lines[0]["rival"], "kernel zram");
        assert_eq!(lines[0]["rival_value"], 2.79);
        assert_eq!(lines[0]["pass"], true);
        assert_eq!(lines[0]["seed"], 0x5eed);
        assert_eq!(lines[0]["processor"], processor::name());
        assert_eq!(lines[1]["pass"], false);
        assert!(lines[1]["rival"].is_null() && lines[1]["rival_value"].is_null());
        assert!(lines[2]["pass"].is_null() && lines[2]["must"].is_null());
        assert_eq!(lines[2]["rival"], "absent: no zram-control");
        assert!(lines[3]["value"].is_null());
    }

    #[test]
    fn the_table_is_aligned_and_tells_the_seed() {
        let (text, verdict) = printed(Form::Table);
        assert_eq!(verdict, Verdict::Fail);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("seed 0x5eed, {}", processor::name()));
        let unit = lines[1].find("unit").unwrap();
        assert_eq!(lines[2].find("%"), Some(unit));
        assert_eq!(lines[3].find("ratio"), Some(unit));
        assert!(lines[3].contains("FAIL"), "{text}");
    }

    #[test]
    fn nothing_that_must_be_is_a_pass() {
        let mut out = Vec::new();
        let mut report = Report::new(Form::Json, 1, &mut out);
        report.add(Figure::new("demo", "pages", 3.0, "pages")).unwrap();
        assert_eq!(report.finish().unwrap(), Verdict::Pass);
    }
}
