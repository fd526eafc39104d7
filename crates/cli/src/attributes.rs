//! `uzram attributes`: the table of attributes, for people and as JSON.

use crate::args::Form;
use measure::text::json;
use serde::Serialize;
use zram::{Attribute, attributes};

#[derive(Serialize)]
struct Row {
    name: &'static str,
    access: String,
    summary: &'static str,
}

/// Returns what is to be printed.
pub(crate) fn run(form: Form) -> String {
    match form {
        Form::Json => {
            let row = |attribute: &Attribute| Row {
                name: attribute.name,
                access: attribute.access().to_string(),
                summary: attribute.summary,
            };
            let rows: Vec<Row> = attributes().iter().map(row).collect();
            json(&rows)
        }
        Form::Table => {
            let width = attributes().iter().map(|attribute| attribute.name.len()).max();
            let width = width.unwrap_or(0);
            let line = |attribute: &Attribute| {
                let Attribute { name, summary, .. } = attribute;
                format!("{name:<width$} {:<12} {summary}\n", attribute.access())
            };
            attributes().iter().map(line).collect()
        }
    }
}
