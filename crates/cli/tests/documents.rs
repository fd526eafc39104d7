//! The documents name tests that there are: a test that is renamed or goes takes its mention along.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// For each name of a file or a folder on its way, what the sources below it hold.
fn sources(root: &Path, dir: &str, found: &mut HashMap<String, String>) {
    for entry in fs::read_dir(root.join(dir)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let path = format!("{dir}/{name}");
        if root.join(&path).is_dir() {
            sources(root, &path, found);
        } else if let Some(stem) = path.strip_suffix(".rs") {
            let text = fs::read_to_string(root.join(&path)).unwrap();
            stem.split('/').for_each(|part| *found.entry(part.to_owned()).or_default() += &text);
        }
    }
}

/// What is between backquotes, as all names of code are.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// What `text` names that `found` does not have; it may go on with the file named last.
fn missing<'t>(text: &'t str, found: &HashMap<String, String>) -> (usize, Vec<&'t str>) {
    let (mut count, mut missing) = (0, Vec::new());
    for line in text.lines() {
        let mut last = "";
        for token in quoted(line) {
            let Some((file, test)) = token.split_once("::") else { continue };
            if !is_name(test) || !(file.is_empty() || is_name(file)) {
                continue;
            }
            last = if file.is_empty() { last } else { file };
            count += 1;
            let has = |source: &String| source.contains(&format!("fn {test}("));
            if !found.get(last).is_some_and(has) {
                missing.push(token);
            }
        }
    }
    (count, missing)
}

#[test]
fn tests_that_the_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = HashMap::new();
    sources(&root, "crates", &mut found);
    let text = fs::read_to_string(root.join("docs/past-bugs.md")).unwrap();
    let (count, not_there) = missing(&text, &found);
    assert!(count > 50, "only {count} are found: are they still written `file::test`?");
    assert!(not_there.is_empty(), "docs/past-bugs.md names what is not there: {not_there:#?}");
    // Names alone, of two words or more: of tests, files, and what faults were planted in.
    let all = &found["crates"];
    let alone = text.lines().flat_map(quoted).filter(|name| is_name(name) && name.contains('_'));
    let is_used = |name: &str| ["(", ":"].iter().any(|sign| all.contains(&format!("{name}{sign}")));
    let is_there = |name: &str| found.contains_key(name) || is_used(name);
    let not_there: Vec<_> = alone.filter(|name| !is_there(name)).collect();
    assert!(not_there.is_empty(), "docs/past-bugs.md names what is not there: {not_there:#?}");
}

#[test]
fn what_is_not_there_is_found() {
    let source = ("model".to_owned(), "#[test]\nfn all_agree() {}\n".to_owned());
    let found = HashMap::from([source]);
    let text =
        "`model::all_agree`, `::all_agrees`, `Other::thing`\n`::all_agree`, `word::all_agree`";
    assert_eq!(missing(text, &found), (4, vec!["::all_agrees", "::all_agree", "word::all_agree"]));
}
