//! Programs that run with the counting library preloaded, and without.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use testkit::programs::{self, Shown, built};

/// Sums of what the processes of a program wrote: see the example.
#[derive(Debug, Default)]
pub struct Counts {
    pub calls: u64,
    pub direct: u64,
    pub given_up: u64,
    pub begun: u64,
    pub forks: u64,
    pub ended: u64,
    pub pins: u64,
}

/// A place with the counting library.
pub struct Place(programs::Place);

impl Place {
    pub fn new() -> Self {
        Place(programs::Place::new(&built().join("examples/libcounting.so")))
    }

    pub fn for_nobody(self) -> Self {
        Place(self.0.for_nobody())
    }

    /// Compiles a program of `tests/programs`.
    pub fn compile(&self, name: &str) -> PathBuf {
        self.0.compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"), name)
    }

    /// Runs a program with the library; what it showed, and the counts.
    pub fn preloaded(&self, command: &[&str]) -> (Shown, Counts) {
        let path = self.empty_file("counts");
        let shown = self.run(command, Some(("DISPATCH_COUNTS", path.as_os_str())));
        let mut sums = Counts::default();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let words = line.split(' ').filter_map(|word| word.parse().ok());
            let numbers: Vec<u64> = words.collect();
            sums.calls += numbers[0];
            sums.direct += numbers[1];
            sums.given_up += numbers[2];
            sums.begun += numbers[3];
            sums.forks += numbers[4];
            sums.ended += numbers[5];
            sums.pins += numbers[6];
        }
        (shown, sums)
    }

    /// Runs a program both ways, which have to show the same; the counts.
    pub fn same(&self, command: &[&str]) -> Counts {
        let (expected, (shown, counts)) = (self.run(command, None), self.preloaded(command));
        assert_eq!(shown, expected, "{command:?}, preloaded and not");
        assert!(counts.calls > 0, "{command:?}: no call was dispatched");
        counts
    }

    /// The same of a line for the shell, whose processes are more than one.
    pub fn same_line(&self, line: &str) -> Counts {
        self.same(&["sh", "-c", line])
    }
}

impl Deref for Place {
    type Target = programs::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
