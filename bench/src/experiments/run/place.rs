//! A directory that any user can access, with uzram's command, its host, and the inputs of jobs.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::Scale;
use crate::Error;
use crate::tool::{BUILD, Tool, built};
use crate::undo::{Undo, folder};

const ROOM: &str = "set TMPDIR to a directory with 1 GB free";
const PYTHON: Tool = Tool { name: "python3", package: "python3", remedy: ROOM };
const COMPILER: Tool = Tool { name: "a compiler", package: "musl-tools", remedy: ROOM };
const INPUTS: &str = include_str!("inputs.py");

/// The directory, which is removed on drop and when a signal ends the run.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    pub(super) scale: Scale,
    _undo: Undo,
}

impl Place {
    /// Creates a directory with copies of the command and its host, which were built beside this
    /// program.
    pub(super) fn new(scale: Scale) -> Result<Place, Error> {
        let (path, undo) = folder("uzram-bench-run-", &env::temp_dir(), ROOM)?;
        let place = Place { path, scale, _undo: undo };
        place.open_to_all(&place.path, 0o755)?;
        for name in ["uzram", "uzram-host"] {
            let (from, to) = (built(name), place.path.join(name));
            fs::copy(&from, &to).map_err(Error::file("copy", &from, BUILD))?;
            place.open_to_all(&to, 0o755)?;
        }
        Ok(place)
    }

    pub(super) fn command(&self) -> PathBuf {
        self.path.join("uzram")
    }

    /// Creates a new directory for one run, which every user is allowed to write to.
    pub(super) fn folder(&self) -> Result<TempDir, Error> {
        let dir = TempDir::with_prefix_in("run-", &self.path);
        let dir = dir.map_err(Error::file("create in", &self.path, ROOM))?;
        self.open_to_all(dir.path(), 0o777)?;
        Ok(dir)
    }

    /// Creates a file with the contents `text`, which every user is allowed to read.
    pub(super) fn file(&self, name: &str, text: &str) -> Result<String, Error> {
        let path = self.path.join(name);
        fs::write(&path, text).map_err(Error::file("write to", &path, ROOM))?;
        self.open_to_all(&path, 0o644)?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Compiles the file `source` with `command`, to which the paths of the new program and of the
    /// source are appended. Returns the program's path.
    pub(super) fn built(&self, command: &[String], source: &str) -> Result<String, Error> {
        let path = format!("{source}.program");
        let mut compiler = Command::new(&command[0]);
        compiler.args(&command[1..]).args([&path, source]).env("GOCACHE", self.path.join("go"));
        COMPILER.run(&mut compiler)?;
        self.open_to_all(Path::new(&path), 0o755)?;
        Ok(path)
    }

    /// Returns the path of an input of `bytes` bytes. A missing input is created from the sources
    /// of Python's library.
    pub(super) fn input(&self, kind: &str, bytes: u64) -> Result<String, Error> {
        let path = self.path.join(format!("{kind}-{bytes}"));
        if !path.exists() {
            let mut python = Command::new(program("python3").unwrap_or_else(|| "python3".into()));
            python.args(["-s", "-E", "-c", INPUTS, kind]).arg(bytes.to_string()).arg(&path);
            PYTHON.run(&mut python)?;
            self.open_to_all(&path, 0o644)?;
        }
        Ok(path.to_string_lossy().into_owned())
    }

    fn open_to_all(&self, path: &Path, mode: u32) -> Result<(), Error> {
        let set = fs::set_permissions(path, Permissions::from_mode(mode));
        set.map_err(Error::file("change the mode of", path, ROOM))
    }
}

/// Returns the path of a program `name` that every user is allowed to execute, or `None` if no such
/// program exists.
pub(super) fn program(name: &str) -> Option<String> {
    let dirs = env::var_os("PATH")?;
    let paths = env::split_paths(&dirs).map(|dir| dir.join(name));
    let found = paths.into_iter().find(|path| {
        fs::canonicalize(path).is_ok_and(|real| is_for_all(path) && is_for_all(&real))
    })?;
    Some(found.to_str()?.to_owned())
}

/// Returns true if every user is allowed to execute the file and to search all directories above
/// it.
fn is_for_all(path: &Path) -> bool {
    let may_all = |path: &Path| {
        fs::metadata(path).is_ok_and(|facts| facts.permissions().mode() & 0o001 == 0o001)
    };
    path.ancestors().all(|part| part.as_os_str().is_empty() || may_all(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_that_all_may_execute() {
        assert!(program("sh").is_some_and(|path| path.ends_with("/sh")));
        assert_eq!(program("no-such-program"), None);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(!is_for_all(&file), "the folder is its owner's alone");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(is_for_all(&file), is_for_all(dir.path()));
    }
}
