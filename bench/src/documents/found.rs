//! The findings of an experiment: tables, charts, and figures that are checked.

use serde::{Deserialize, Serialize};

use crate::kernel::Rival;
use crate::report::{Bound, Figure, Line};

/// The findings of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) figures: Vec<Line>,
    /// Sentences below the tables and figures, such as the reason why a value could not be measured
    /// or misses its bound.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// Whether the value misses its bound. The bound comes from the document or from the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_short: bool,
}

/// A chart of several series of values. All series have the same x coordinates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// The name of the values with their unit, for example `overhead in %`.
    pub(crate) unit: String,
    pub(crate) places: Vec<String>,
    pub(crate) series: Vec<Series>,
    /// Whether the scale of the values is logarithmic.
    pub(crate) is_log: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) values: Vec<f64>,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(
        title: impl Into<String>,
        head: impl IntoIterator<Item = T>,
    ) -> Table {
        let head = head.into_iter().map(Into::into).collect();
        Table { title: title.into(), head, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl Cell {
    /// Returns a cell with a value that must meet the bound `must`.
    pub(crate) fn judged(text: impl Into<String>, value: f64, must: Bound) -> Cell {
        Cell { text: text.into(), is_short: !must.met_by(value) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), is_short: false }
    }
}

impl Found {
    pub(crate) fn add(&mut self, figure: &Figure) {
        self.figures.push(figure.line());
    }

    /// Returns the measurement of the rival `name`. If the rival is absent, adds a note with the
    /// reason.
    pub(crate) fn present<T>(&mut self, name: &str, rival: Rival<T>) -> Option<T> {
        match rival {
            Rival::Present(measured) => Some(measured),
            Rival::Absent(reason) => {
                self.note(format!("{name} is left out: {reason}."));
                None
            }
        }
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }
}
