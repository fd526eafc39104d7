//! The report as one HTML page, with its charts.

use pulldown_cmark::{Options, Parser, html};

use super::results::Results;
use super::{chart, markdown};

const STYLE: &str = "\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 3rem; border-bottom: 1px solid #d8dee4; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
th, td { border: 1px solid #d8dee4; padding: 3px 9px; text-align: left; }
th { background: #f6f8fa; }
td.short { color: #cf222e; font-weight: 600; }
svg { max-width: 100%; height: auto; }";

/// Returns the report as an HTML page that needs no other file.
pub fn report(results: &Results) -> String {
    let mut body = made(&markdown::opening(results));
    for outcome in &results.experiments {
        let section = made(&markdown::section(outcome));
        body += &section.replacen("<h2>", &format!("<h2 id=\"{}\">", outcome.name), 1);
        outcome.found.charts.iter().for_each(|of| body += &chart::drawn(of));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>uzram: the documents' experiments</title>\n\
         <style>\n{STYLE}\n</style>\n{body}</html>\n"
    )
}

fn made(text: &str) -> String {
    let mut page = String::new();
    html::push_html(&mut page, Parser::new_ext(text, Options::ENABLE_TABLES));
    page.lines().map(|line| marked(line) + "\n").collect()
}

/// Marks the cells that contain a red or orange sign, so that the style sheet shows them in red.
fn marked(line: &str) -> String {
    let cells = line.split("<td>").enumerate();
    let cell = |(nth, cell): (usize, &str)| match (nth, cell.contains(['🔴', '🟠'])) {
        (0, _) => cell.to_owned(),
        (_, true) => format!("<td class=\"short\">{cell}"),
        (_, false) => format!("<td>{cell}"),
    };
    cells.map(cell).collect()
}
