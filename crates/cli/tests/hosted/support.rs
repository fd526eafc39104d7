//! Runs programs with a host and natively, and reads the statistics that processes write when they
//! end.

use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::programs::{self, Shown};

/// A directory for a program and its files, and the path of the host.
pub struct Place {
    place: programs::Place,
    host: PathBuf,
}

/// The statistics of a program's processes, one line for each process.
pub struct Stats(pub Vec<Value>);

impl Stats {
    pub fn sum(&self, name: &str) -> u64 {
        self.0.iter().map(|line| line[name].as_u64().unwrap()).sum()
    }

    pub fn max(&self, name: &str) -> u64 {
        self.0.iter().map(|line| line[name].as_u64().unwrap()).max().unwrap()
    }
}

/// Returns the path of the command `name`.
fn look_up(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut files = std::env::split_paths(&path).map(|dir| dir.join(name));
    files.find(|file| file.is_file()).unwrap_or_else(|| panic!("{name} is not installed"))
}

impl Place {
    pub fn new() -> Self {
        let place = programs::Place::default();
        let host = place.copy(Path::new(env!("CARGO_BIN_EXE_uzram-host")));
        Place { place, host }
    }

    pub fn for_nobody(self) -> Self {
        Place { place: self.place.for_nobody(), ..self }
    }

    /// Compiles a program of `tests/programs`.
    pub fn compile(&self, name: &str) -> PathBuf {
        self.place.compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"), name)
    }

    /// Runs a program with the host. Programs that the program executes get a host too.
    pub fn hosted(&self, settings: &str, command: &[&str]) -> (Shown, Stats) {
        let stats = self.empty_file("stats");
        let mut all = OsString::from(settings);
        all.push(",host=");
        all.push(&self.host);
        all.push(",stats=");
        all.push(&stats);
        let file = look_up(command[0]);
        let mut it = Command::new(&self.host);
        it.arg(all).arg(&file).arg(&file).args(command);
        let shown = self.show(&mut it);
        let lines = fs::read_to_string(&stats).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (shown, Stats(lines))
    }

    /// Runs a program with a host and natively. Asserts that the outputs are equal. Returns the
    /// statistics.
    pub fn same(&self, settings: &str, command: &[&str]) -> Stats {
        let (shown, stats) = self.hosted(settings, command);
        assert_eq!(shown, self.run(command), "{command:?}, with a host and natively");
        stats
    }
}

impl Deref for Place {
    type Target = programs::Place;

    fn deref(&self) -> &Self::Target {
        &self.place
    }
}
