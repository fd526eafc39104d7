//! Each test that `docs/past-bugs.md` mentions must exist.

use std::collections::HashMap;

use crate::tree::Tree;

const BUGS: &str = "docs/past-bugs.md";

/// The directories in which the rule searches for names.
const PLACES: [&str; 3] = ["crates", "slab", "style"];

/// Maps each name of a file or directory to the text of all sources below it.
fn sources(tree: &Tree) -> HashMap<&str, String> {
    let mut found: HashMap<&str, String> = HashMap::new();
    let dir_of = |path: &str| path.split('/').next().unwrap_or("").to_owned();
    let files = tree.files("rs");
    for (path, text) in files.filter(|(path, _)| PLACES.contains(&dir_of(path).as_str())) {
        let stem = path.trim_end_matches(".rs");
        stem.split('/').for_each(|part| *found.entry(part).or_default() += text);
    }
    found
}

/// Returns the parts of a line in backquotes. Documents write names from code in backquotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Returns the number of test names in `text`, and the names that do not exist. The test `::name`
/// belongs to the file of the previous test in the line.
fn missing(text: &str, found: &HashMap<&str, String>) -> (usize, Vec<String>) {
    let (mut count, mut missing) = (0, Vec::new());
    let everything = PLACES.map(|dir| found.get(dir).map_or("", String::as_str));
    let is_used = |name: &str| {
        let uses = ["(", ":"].map(|sign| format!("{name}{sign}"));
        everything.iter().any(|text| uses.iter().any(|used| text.contains(used)))
    };
    for (nth, line) in text.lines().enumerate() {
        let mut last = "";
        for token in quoted(line) {
            let is_there = match token.split_once("::") {
                Some((file, test)) if is_name(test) && (file.is_empty() || is_name(file)) => {
                    last = if file.is_empty() { last } else { file };
                    count += 1;
                    found.get(last).is_some_and(|source| source.contains(&format!("fn {test}(")))
                }
                // A name without `::` and with an underscore is a test, a file, or code in which
                // bugs were planted.
                None if is_name(token) && token.contains('_') => {
                    found.contains_key(token) || is_used(token)
                }
                _ => true,
            };
            if !is_there {
                missing.push(format!(
                    "{BUGS}:{}: there is no `{token}`: it was renamed, or went",
                    nth + 1
                ));
            }
        }
    }
    (count, missing)
}

#[test]
fn tests_that_the_documents_name_exist() {
    let (count, missing) = missing(Tree::disk().text(BUGS).unwrap(), &sources(Tree::disk()));
    assert!(
        count > 50,
        "only {count} names of tests are found: are they still written `file::test`?"
    );
    assert!(missing.is_empty(), "\n{}\n", missing.join("\n"));
}

#[test]
fn what_is_not_there_is_found() {
    let tree = Tree::of(&[("crates/a/tests/model.rs", "#[test]\nfn all_agree() {}\n")]);
    let text = "`model::all_agree`, `::all_agrees`, `Other::thing`\n`::all_agree`, \
        `word::all_agree`\n`all_agree`, `al_agree`, `word`";
    let (count, missing) = missing(text, &sources(&tree));
    let names: Vec<_> = missing.iter().map(|fault| fault.split('`').nth(1).unwrap()).collect();
    assert_eq!(
        (count, names),
        (4, vec!["::all_agrees", "::all_agree", "word::all_agree", "al_agree"])
    );
    assert!(missing[3].starts_with("docs/past-bugs.md:3: "));
}
