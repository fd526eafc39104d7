//! `uzram attributes`: the table of attributes, for human readers or as JSON.

use crate::args::AttributesArgs;
use crate::text::json;
use serde::Serialize;
use zram::{Attribute, attributes};

#[derive(Serialize)]
struct Row {
    name: &'static str,
    access: String,
    summary: &'static str,
}

pub(crate) fn run(args: &AttributesArgs) -> String {
    if args.json {
        let row = |attribute: &Attribute| Row {
            name: attribute.name,
            access: attribute.access().to_string(),
            summary: attribute.summary,
        };
        return json(&attributes().iter().map(row).collect::<Vec<_>>());
    }
    let width = attributes().iter().map(|attribute| attribute.name.len()).max().unwrap_or(0);
    let line = |attribute: &Attribute| {
        let Attribute { name, summary, .. } = attribute;
        format!("{name:<width$} {:<12} {summary}\n", attribute.access())
    };
    attributes().iter().map(line).collect()
}
