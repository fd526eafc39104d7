//! Programs that tests run twice. In one of the runs, the code under test is in the program's
//! process.

use crate::rights::NOBODY;
use crate::{INCLUDED, scaled};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Returns the time after which a program counts as hung. The program is then ended, and the test
/// fails.
fn limit() -> Duration {
    Duration::from_secs(scaled(300, 1200) as u64)
}

/// The status and the output of a program.
#[derive(Debug, PartialEq)]
pub struct Shown {
    pub status: String,
    pub output: String,
}

/// A folder that any user can read, with compiled programs.
#[derive(Debug)]
pub struct Place {
    dir: TempDir,
    user: Option<u32>,
}

/// Returns the folder in which cargo has built the running test.
pub fn built() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().parent().unwrap().to_path_buf()
}

impl Default for Place {
    fn default() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        Place { dir, user: None }
    }
}

impl Place {
    /// Copies a file that cargo has built, so that any user can read it. Returns the copy's path.
    pub fn copy(&self, built: &Path) -> PathBuf {
        let copy = self.path().join(built.file_name().unwrap());
        fs::copy(built, &copy)
            .unwrap_or_else(|error| panic!("{}: {error}: cargo test builds it", built.display()));
        copy
    }

    #[must_use]
    pub fn for_nobody(mut self) -> Self {
        self.user = Some(NOBODY);
        self
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Compiles the program `name`.c in the folder `sources`. Returns the path of the program.
    pub fn compile(&self, sources: &Path, name: &str) -> PathBuf {
        let program = self.path().join(name);
        let flags =
            ["-O1", "-Wall", "-Werror", "-Wno-unused-result", "-pthread", "-I", INCLUDED, "-o"];
        let mut gcc = Command::new("gcc");
        gcc.args(flags).arg(&program).arg(sources.join(name).with_extension("c"));
        assert!(gcc.status().expect("gcc").success());
        program
    }

    /// Creates a file that every user is allowed to append to.
    pub fn empty_file(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        path
    }

    /// Runs a program without any wrapper.
    pub fn run(&self, command: &[&str]) -> Shown {
        let mut it = Command::new(command[0]);
        it.args(&command[1..]);
        self.show(&mut it)
    }

    /// Runs a command in this folder. Returns its status and output.
    pub fn show(&self, command: &mut Command) -> Shown {
        let seen = self.path().join("seen");
        let file = File::create(&seen).unwrap();
        command.current_dir(self.path()).stdin(Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (begin, limit) = (Instant::now(), limit());
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.to_string(),
                None if begin.elapsed() > limit => {
                    child.kill().unwrap();
                    break "it hung".to_owned();
                }
                None => sleep(Duration::from_millis(10)),
            }
        };
        let output = String::from_utf8_lossy(&fs::read(&seen).unwrap()).into_owned();
        Shown { status, output }
    }
}
