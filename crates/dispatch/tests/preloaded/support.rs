//! Runs programs with and without the preloaded counting library.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::programs::{self, Shown, built};

/// The sums of the numbers that the processes of a program wrote: see `examples/counting.rs`.
#[derive(Debug, Default)]
pub struct Counts {
    pub calls: u64,
    pub given_up: u64,
    pub begun: u64,
    pub forks: u64,
    pub ended: u64,
    pub pins: u64,
}

/// A directory that contains the counting library.
pub struct Place {
    place: programs::Place,
    library: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let place = programs::Place::default();
        let library = place.copy(&built().join("examples/libcounting.so"));
        Place { place, library }
    }

    pub fn for_nobody(self) -> Self {
        Place { place: self.place.for_nobody(), ..self }
    }

    /// Compiles a program of `tests/programs`.
    pub fn compile(&self, name: &str) -> PathBuf {
        self.place.compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"), name)
    }

    /// Runs a program with the library. Returns the program's output, and the library's counts.
    pub fn preloaded(&self, command: &[&str]) -> (Shown, Counts) {
        let path = self.empty_file("counts");
        let mut it = Command::new(command[0]);
        it.args(&command[1..]).env("LD_PRELOAD", &self.library).env("DISPATCH_COUNTS", &path);
        let shown = self.show(&mut it);
        let mut sums = Counts::default();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let words = line.split(' ').filter_map(|word| word.parse().ok());
            let numbers: Vec<u64> = words.collect();
            sums.calls += numbers[0];
            sums.given_up += numbers[1];
            sums.begun += numbers[2];
            sums.forks += numbers[3];
            sums.ended += numbers[4];
            sums.pins += numbers[5];
        }
        (shown, sums)
    }

    /// Runs a program with and without the library, and checks that the output is the same. Returns
    /// the counts.
    pub fn same(&self, command: &[&str]) -> Counts {
        let (expected, (shown, counts)) = (self.run(command), self.preloaded(command));
        assert_eq!(shown, expected, "{command:?}, preloaded and not");
        assert!(counts.calls > 0, "{command:?}: no call was dispatched");
        counts
    }

    /// Runs a shell command line with and without the library, and checks that the output is the
    /// same. The line can start several processes.
    pub fn same_line(&self, line: &str) -> Counts {
        self.same(&["sh", "-c", line])
    }
}

impl Deref for Place {
    type Target = programs::Place;

    fn deref(&self) -> &Self::Target {
        &self.place
    }
}
