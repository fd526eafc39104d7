//! The figures in the documents must equal committed results.
//!
//! A figure is a number with a decimal point or a percent sign. A paragraph, list item or table row
//! cites results by `bench NAME` or `bench/results/NAME.jsonl`. Figures after a citation, up to the
//! next citation or heading, must be in the cited results.
//!
//! Figures are compared as text. If the row or the column of a table names an input (heap, source,
//! system), only results for that input are considered. A test of `bench` checks the text that
//! `make figures` writes, so this rule ignores it.

use std::collections::BTreeSet;

use crate::document::{Block, Document};
use crate::ratchet::{self, Counts, add};
use crate::tree::{Tree, folder};

const RESULTS: &str = "bench/results/";
const INPUTS: [&str; 3] = ["heap", "source", "system"];
/// A number after one of these words is a version, not a figure.
const VERSIONED: [&str; 5] = ["linux", "python", "rust", "kernel", "version"];
const DIFFERS: &str = "Correct the figure, or cite the experiment that has it, `bench NAME`. \
    The ratchet allows those that are calculated.";
const UNCITED: &str = "Cite the experiment that a figure comes from, `bench NAME`, with its result \
    in bench/results.";

/// A value of the product or of a rival in the committed results.
struct Result {
    /// The names of the file and of the experiment.
    names: [String; 2],
    figure: String,
    unit: String,
    value: f64,
}

/// A figure, as written in a document.
#[derive(Debug, PartialEq)]
struct Figure {
    text: String,
    is_percent: bool,
}

fn results(tree: &Tree) -> Vec<Result> {
    let mut all = Vec::new();
    for (path, text) in
        tree.files("jsonl").filter(|(path, _)| folder(path) == RESULTS.trim_end_matches('/'))
    {
        let file = &path[RESULTS.len()..path.len() - ".jsonl".len()];
        for line in text.lines() {
            let line: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{path}: {error}"));
            let said = |key: &str| line[key].as_str().unwrap_or("").to_owned();
            for value in [&line["value"], &line["rival_value"]]
                .into_iter()
                .filter_map(|value| value.as_f64())
            {
                let names = [file.to_owned(), said("experiment")];
                all.push(Result { names, figure: said("figure"), unit: said("unit"), value });
            }
        }
    }
    all
}

/// Returns the figures of a text, without versions.
fn figures(text: &str) -> Vec<Figure> {
    let mut found = Vec::new();
    let mut before = "";
    let ends = |letter: char| letter.is_whitespace() || "();:".contains(letter);
    for word in text.split(ends) {
        let is_version =
            VERSIONED.contains(&&*before.to_lowercase()) || word.starts_with(char::is_alphabetic);
        before = word;
        for part in word.split(['-', '/', '\u{2013}']).filter(|_| !is_version) {
            let number = part.trim_end_matches(['.', ',']);
            let is_percent = number.ends_with('%');
            let digits = number.trim_end_matches(['%', '\u{d7}']).replace(',', "");
            let is_number = digits.starts_with(|first: char| first.is_ascii_digit())
                && digits.parse::<f64>().is_ok();
            if is_number && (is_percent || digits.contains('.')) {
                found.push(Figure { text: digits, is_percent });
            }
        }
    }
    found
}

/// Returns the names of the experiments that a piece of code cites.
fn cited(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in code.split_whitespace() {
        names.extend(part.strip_prefix(RESULTS).and_then(|name| name.strip_suffix(".jsonl")));
    }
    let mut words = code.split_whitespace().skip_while(|word| *word != "bench").skip(1);
    names.extend(words.find(|word| *word != "--"));
    names.into_iter().map(str::to_owned).collect()
}

impl Result {
    /// Returns whether the result belongs to the experiment `name`. For example, `blocks-ratio`
    /// belongs to `blocks`.
    fn is_of(&self, name: &str) -> bool {
        self.names.iter().any(|own| {
            own == name || own.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
        })
    }

    fn reads_as(&self, figure: &Figure) -> bool {
        let decimals = figure.text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let is_share = figure.is_percent && self.unit != "%";
        let value = if is_share { self.value * 100.0 } else { self.value };
        (figure.is_percent || self.unit != "%") && format!("{value:.decimals$}") == figure.text
    }

    fn is_about(&self, input: &str) -> bool {
        self.figure.split(['/', ' ', ',']).any(|part| part == input)
    }
}

/// Returns the input that the labels of a table cell name, or `None` if they do not name exactly
/// one.
fn input_of(block: &Block) -> Option<&'static str> {
    let named = |input: &&&str| {
        block.labels.iter().any(|label| label.split(' ').any(|word| word == **input))
    };
    let mut named = INPUTS.iter().filter(named);
    named.next().copied().filter(|_| named.next().is_none())
}

/// Counts a document's figures that differ from the cited results, and its figures without a
/// citation.
fn look(path: &str, text: &str, results: &[Result], differ: &mut Counts, uncited: &mut Counts) {
    let mut in_force: BTreeSet<String> = BTreeSet::new();
    for block in Document::new(text).blocks {
        if block.is_heading {
            in_force.clear();
        }
        let own: BTreeSet<String> = block.code().flat_map(|(_, code)| cited(code)).collect();
        let names: BTreeSet<&String> = in_force.iter().chain(&own).collect();
        let of_cited: Vec<&Result> =
            results.iter().filter(|result| names.iter().any(|name| result.is_of(name))).collect();
        let input =
            input_of(&block).filter(|input| of_cited.iter().any(|result| result.is_about(input)));
        let counted = |result: &&&Result| input.is_none_or(|input| result.is_about(input));
        for (line, text) in block.text().filter(|_| !block.is_written) {
            for figure in figures(text) {
                let said = format!(
                    "{path}:{line}: {}{}",
                    figure.text,
                    if figure.is_percent { "%" } else { "" }
                );
                let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
                if names.is_empty() {
                    add(uncited, path, format!("{said} comes from nowhere"));
                } else if !of_cited.iter().filter(counted).any(|result| result.reads_as(&figure)) {
                    let of = input.map_or(String::new(), |input| format!(" for {input}"));
                    add(
                        differ,
                        path,
                        format!("{said} is no result of bench {}{of}", names.join(", ")),
                    );
                }
            }
        }
        if !own.is_empty() {
            in_force = own;
        }
    }
}

/// Counts the figures in README and `docs` that differ from the cited results, and the figures
/// without a citation.
fn counts(tree: &Tree) -> [Counts; 2] {
    let (results, mut differ, mut uncited) = (results(tree), Counts::new(), Counts::new());
    for (path, text) in
        tree.files("md").filter(|(path, _)| *path == "README.md" || path.starts_with("docs/"))
    {
        look(path, text, &results, &mut differ, &mut uncited);
    }
    [differ, uncited]
}

#[test]
fn figures_are_committed_results() {
    let [differ, uncited] = counts(Tree::disk());
    let rules = [("figures-that-differ", DIFFERS, &differ), ("figures-uncited", UNCITED, &uncited)];
    ratchet::hold(&rules);
}

#[test]
fn figures_are_found_in_texts() {
    let texts: Vec<_> = figures(
        "0.80% of 1,234.5 MB/s, (6.1); 977%. 4 KiB, v1.2, 1.00-1.04, 3/4 and 2. Rust \
            1.95, MIT-2.0, Version 0.1, 1.5×",
    )
    .into_iter()
    .map(|figure| figure.text)
    .collect();
    assert_eq!(texts, ["0.80", "1234.5", "6.1", "977", "1.00", "1.04", "1.5"]);
    assert_eq!(
        [
            cited("bench fill"),
            cited("cargo run --release -p bench -- fill --json"),
            cited("bench/results/a.jsonl"),
            cited("uzram fill")
        ]
        .concat(),
        ["fill", "fill", "a"]
    );
}

#[test]
fn a_figure_that_is_no_result_is_found() {
    let line = |experiment: &str, figure: &str, value: f64, rival: f64, unit: &str| {
        format!(
            "{{\"experiment\":\"{experiment}\",\"figure\":\"{figure}\",\"value\":{value},\
            \"unit\":\"{unit}\",\"rival_value\":{rival}}}\n"
        )
    };
    let results = line("fill", "heap/overhead", 1.1151, 3.297, "%")
        + &line("fill", "source/overhead", 0.8049, 0.5, "%")
        + &line("fill-other", "time", 0.2, 3.0, "");
    let other = line("cold", "a", 9.87, 8.0, "");
    let text = "From 7.5%, 1/128.\n\nIt is 3.30% by `bench fill`, or 9.87.\n\n| input | ours | \
        other |\n|---|---|---|\n| CPython heap | 1.12% | 0.80% |\n\
        | source tree | 0.80% | 0.81% |\n\nAnd 0.2, 20%, 1.12.\n\n# Next\n\n\
            `bench/results/cold.jsonl`: 9.87\n\n- 9.8\n- 1.12% of `bench fill`\n\n\
        <!-- figures: x -->\n| a |\n|---|\n| 5.5 |\n\n- 6.5\n<!-- end -->\n\n7.25\n";
    let tree = Tree::of(&[
        ("bench/results/fill.jsonl", &results),
        ("bench/results/cold.jsonl", &other),
        ("docs/a.md", text),
        ("x/b.md", text),
    ]);
    let [differ, uncited] = counts(&tree);
    let expected = [
        "docs/a.md:3: 9.87 is no result of bench fill",
        "docs/a.md:7: 0.80% is no result of bench fill for heap",
        "docs/a.md:8: 0.81% is no result of bench fill for source",
        "docs/a.md:10: 1.12 is no result of bench fill",
        "docs/a.md:16: 9.8 is no result of bench cold",
        "docs/a.md:27: 7.25 is no result of bench fill",
    ];
    assert_eq!(differ["docs/a.md"].faults, expected);
    assert_eq!(uncited["docs/a.md"].faults, ["docs/a.md:1: 7.5% comes from nowhere"]);
}
