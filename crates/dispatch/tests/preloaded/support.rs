//! Programs that run with the counting library preloaded, and without.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A program that hangs is ended then, so that the test fails.
const LIMIT: Duration = Duration::from_secs(300);
pub const NOBODY: u32 = 65534;

/// What a program has shown.
#[derive(Debug, PartialEq)]
pub struct Shown {
    pub status: String,
    pub output: String,
}

/// Sums of what the processes of a program wrote: see the example.
#[derive(Debug, Default)]
pub struct Counts {
    pub calls: u64,
    pub direct: u64,
    pub given_up: u64,
    pub begun: u64,
    pub forks: u64,
    pub ended: u64,
}

/// A folder that any user can look into, with the library and what was compiled.
pub struct Place {
    dir: TempDir,
    user: Option<u32>,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let tests = std::env::current_exe().unwrap();
        let built = tests.parent().unwrap().parent().unwrap().join("examples/libcounting.so");
        fs::copy(&built, dir.path().join("counting.so"))
            .unwrap_or_else(|error| panic!("{}: {error}: cargo test builds it", built.display()));
        Place { dir, user: None }
    }

    pub fn for_nobody(mut self) -> Self {
        self.user = Some(NOBODY);
        self
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Compiles a program of `tests/programs`.
    pub fn compile(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let program = self.path().join(name);
        let flags = ["-O1", "-Wall", "-Werror", "-Wno-unused-result", "-pthread", "-o"];
        let mut gcc = Command::new("gcc");
        gcc.args(flags).arg(&program).arg(source.join(name).with_extension("c"));
        assert!(gcc.status().expect("gcc").success());
        program
    }

    fn run(&self, command: &[&str], counts: Option<&Path>) -> Shown {
        let seen = self.path().join("seen");
        let file = File::create(&seen).unwrap();
        let mut it = Command::new(command[0]);
        it.args(&command[1..]).current_dir(self.path()).env_remove("LD_PRELOAD");
        it.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        if let Some(counts) = counts {
            it.env("LD_PRELOAD", self.path().join("counting.so")).env("DISPATCH_COUNTS", counts);
        }
        if let Some(user) = self.user {
            it.uid(user).gid(user);
        }
        let mut child = it.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let begin = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.to_string(),
                None if begin.elapsed() > LIMIT => {
                    child.kill().unwrap();
                    break "it hung".to_owned();
                }
                None => sleep(Duration::from_millis(10)),
            }
        };
        let output = String::from_utf8_lossy(&fs::read(&seen).unwrap()).into_owned();
        Shown { status, output }
    }

    /// Runs a program with the library; what it showed, and the counts.
    pub fn preloaded(&self, command: &[&str]) -> (Shown, Counts) {
        let path = self.path().join("counts");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let shown = self.run(command, Some(&path));
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
