//! What an experiment comes to: tables, charts, and figures that are judged.

use serde::{Deserialize, Serialize};

use crate::report::{Bound, Figure, Line};

/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) figures: Vec<Line>,
    /// Sentences below them: what could not be measured, why a figure falls short.
    pub(crate) notes: Vec<String>,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// Whether it falls short of the document's figure, or the kernel's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_short: bool,
}

/// Values of several series, at the same places.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// What the values are: `overhead in %`.
    pub(crate) unit: String,
    pub(crate) places: Vec<String>,
    pub(crate) series: Vec<Series>,
    /// Whether each step of the scale is a power of ten.
    pub(crate) is_log: bool,
}

/// A series of a chart.
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
    /// A value that must meet a bound.
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
    /// Takes a figure.
    pub(crate) fn add(&mut self, figure: &Figure) {
        self.figures.push(figure.line());
    }

    /// Takes a sentence.
    pub(crate) fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }
}
