//! Tests that README is short, describes all commands, and names only existing options.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use support::UZRAM;

/// The maximum number of lines of README, about two pages. Longer texts belong in `docs`.
const LINES_MAX: usize = 120;

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    std::fs::read_to_string(path).unwrap()
}

fn help(command: &str) -> String {
    let output = Command::new(UZRAM).args([command, "--help"]).output().unwrap();
    assert!(output.status.success(), "README names the command {command:?}, which there is not");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the commands that `uzram --help` lists.
fn commands() -> BTreeSet<String> {
    let output = Command::new(UZRAM).arg("--help").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let list = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let named =
        list.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    named.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Returns the rows of the table of commands. Each row has the names in its first column.
fn rows(text: &str) -> Vec<(Vec<String>, &str)> {
    let table = text.split("## Commands").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let names = |cell: &str| {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted
            .map(|name| name.trim_start_matches("uzram ").split(' ').next().unwrap().to_owned())
            .collect()
    };
    rows.map(|row| (names(row.split('|').nth(1).unwrap()), row)).collect()
}

fn options(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 2)
}

#[test]
fn it_is_short() {
    let lines = readme().lines().count();
    assert!(
        lines <= LINES_MAX,
        "README has {lines} lines, and may have {LINES_MAX}: move some to docs"
    );
}

#[test]
fn its_table_has_every_command_with_options_there_are() {
    let text = readme();
    let rows = rows(&text);
    let named: BTreeSet<String> = rows.iter().flat_map(|(names, _)| names.clone()).collect();
    assert_eq!(named, commands(), "README's table of commands, and what uzram --help lists");
    for (names, row) in rows {
        let help: String = names.iter().map(|name| help(name)).collect();
        let missing: Vec<_> = options(row).filter(|option| !help.contains(option)).collect();
        assert!(
            missing.is_empty(),
            "README has options of {names:?} that there are not: {missing:?}"
        );
    }
}

#[test]
fn its_lines_to_try_name_commands_and_options_there_are() {
    let text = readme();
    let block = text.split("## Try it").nth(1).unwrap().split("```").nth(1).unwrap();
    let lines: Vec<_> =
        block.lines().filter_map(|line| line.strip_prefix("target/release/uzram ")).collect();
    assert_eq!(lines.len(), 3, "the build, and three lines to try: {block}");
    for line in lines {
        let line = line.split('#').next().unwrap();
        let help = help(line.split(' ').next().unwrap());
        let missing: Vec<_> = options(line).filter(|option| !help.contains(option)).collect();
        assert!(missing.is_empty(), "{line}: {missing:?}");
    }
}
