//! The documents must show the figures of the committed results, and the picture must be drawn from
//! these results.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SHOWN: [&str; 3] = ["README.md", "docs/results.md", "docs/overhead.svg"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs the check on a checkout. Returns whether it found no error, and its messages.
fn check(checkout: &Path) -> (bool, String) {
    let program = root().join("tools/figures");
    let output = Command::new("python3")
        .arg(program)
        .args(["--check", "--root"])
        .arg(checkout)
        .output()
        .expect("python3 is missing: run make setup");
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// Copies the files that the check reads, so that a test can change them.
fn copied() -> tempfile::TempDir {
    let (dir, root) = (tempfile::tempdir().unwrap(), root());
    fs::create_dir_all(dir.path().join("bench/results")).unwrap();
    fs::create_dir(dir.path().join("docs")).unwrap();
    for name in SHOWN {
        fs::copy(root.join(name), dir.path().join(name)).unwrap();
    }
    for entry in fs::read_dir(root.join("bench/results")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join("bench/results").join(entry.file_name())).unwrap();
    }
    dir
}

fn replaced(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{} has no {from:?}", path.display());
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn documents_show_the_committed_results() {
    let (is_right, errors) = check(&root());
    assert!(is_right, "{errors}");
}

#[test]
fn results_that_change_are_noticed_in_all_that_shows_them() {
    let dir = copied();
    for (file, figure) in [("removal", "-tools"), ("fill", "source")] {
        let result = dir.path().join(format!("bench/results/{file}.jsonl"));
        let value = format!(r#""{figure}/overhead over C","value":"#);
        replaced(&result, &value, &format!("{value}1"));
    }
    let (is_right, errors) = check(dir.path());
    assert!(!is_right);
    for name in SHOWN {
        assert!(errors.contains(&format!("{name}:")), "{errors}");
    }
    assert!(errors.contains("make figures"), "{errors}");
}

#[test]
fn figures_of_no_result_are_noticed() {
    let dir = copied();
    replaced(&dir.path().join("README.md"), "## Try it", "It is 3.7 times as fast.\n\n## Try it");
    let (is_right, errors) = check(dir.path());
    assert!(!is_right && errors.contains("It is 3.7 times as fast"), "{errors}");
}

#[test]
fn results_that_lack_a_figure_are_named() {
    let dir = copied();
    replaced(&dir.path().join("bench/results/sparse.jsonl"), "metadata per slot\"", "metadata\"");
    let (is_right, errors) = check(dir.path());
    assert!(!is_right && errors.contains("sparse.jsonl has no figure"), "{errors}");
}
