//! Objects are undone in reverse order, by their owners and by a signal.
#![allow(clippy::unwrap_used)]

use std::env;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use bench::Error;
use bench::undo::{Action, Undo};
use rustix::process::{Pid, Signal, kill_process};

const HOLDER: &str = "UZRAM_TEST_HOLDS";

/// Returns an object whose undo action appends `name` to the file `file`.
fn noted(file: &Path, name: &'static str) -> Undo {
    let file: PathBuf = file.to_owned();
    let note: Action = Box::new(move || {
        let mut file = OpenOptions::new().append(true).create(true).open(file).unwrap();
        file.write_all(name.as_bytes()).unwrap();
        Ok(())
    });
    Undo::of(|| Ok::<_, Error>(((), note))).unwrap().1
}

// This is not a test. The next test runs this function in a child process, and ends that process
// with a signal.
#[test]
fn holder() {
    let Some(file) = env::var_os(HOLDER) else { return };
    let file = Path::new(&file);
    let held = ["a", "b", "c", "d"].map(|name| noted(file, name));
    let [_a, b, _c, d] = held;
    d.now().unwrap();
    drop(b);
    println!("holds");
    loop {
        thread::sleep(Duration::from_secs(10));
    }
}

#[test]
fn a_signal_undoes_what_its_owners_have_not() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("undone");
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "holder", "--nocapture"])
            .env(HOLDER, &file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map(Result::unwrap).any(|line| line.ends_with("holds")));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "dbca");
    }
}
