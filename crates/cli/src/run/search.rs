//! From a name to the program that the system would execute, as `execvp` finds it, and whether the
//! library can be loaded into that.

use super::elf;
use super::raised;
use super::refusal::Refusal;
use crate::error::Error;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where programs are looked for if PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// What runs a text that names no interpreter.
const SHELL: &str = "/bin/sh";
/// The most interpreters of interpreters, as of Linux.
const DEPTH: u32 = 5;
/// As much of a script as the system looks at.
const LINE: u64 = 256;

/// A program that can be run.
#[derive(Debug)]
pub(super) struct Program {
    file: PathBuf,
    is_for_shell: bool,
}

impl Program {
    /// Returns the command that starts it, which sees itself as `name`.
    pub(super) fn command(&self, name: &OsStr) -> Command {
        if self.is_for_shell {
            let mut command = Command::new(SHELL);
            command.arg(&self.file);
            return command;
        }
        let mut command = Command::new(&self.file);
        command.arg0(name);
        command
    }
}

/// What a file is to the system.
enum Kind {
    Elf(File),
    /// Its interpreter.
    Script(PathBuf),
    /// Neither: text for the shell, if anything.
    Text,
}

/// Finds a program, and checks that it can be run.
pub(super) fn find(name: &OsStr) -> Result<Program, Refusal> {
    let file = look_up(name)?;
    let kind = kind(&file)?;
    let is_for_shell = matches!(kind, Kind::Text);
    let kind = if is_for_shell { Kind::Script(SHELL.into()) } else { kind };
    check(&file, kind)?;
    Ok(Program { file, is_for_shell })
}

/// Returns the file that a name stands for.
fn look_up(name: &OsStr) -> Result<PathBuf, Refusal> {
    let program = Path::new(name);
    if name.as_bytes().contains(&b'/') {
        return match executable(program) {
            Ok(()) => Ok(program.to_owned()),
            Err(error) => Err(Refusal::of_start(program, &error)),
        };
    }
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    let mut refused = None;
    for dir in env::split_paths(&path).filter(|_| !name.is_empty()) {
        // An empty one is the working directory, and a path with a slash is not looked for again.
        let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
        let file = dir.join(program);
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                refused.get_or_insert(error);
            }
            Err(_) => {}
        }
    }
    Err(match refused {
        Some(error) => Refusal::not_executable(program, error),
        None => Refusal::not_found(program, "no such program in the directories of PATH"),
    })
}

/// Checks that a file may be executed.
fn executable(file: &Path) -> io::Result<()> {
    if !file.metadata()?.is_file() {
        let why = "it is not a regular file";
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Returns what a file is.
fn kind(path: &Path) -> Result<Kind, Refusal> {
    let read = || {
        let file = File::open(path)?;
        let mut start = Vec::new();
        (&file).take(LINE).read_to_end(&mut start)?;
        Ok((file, start))
    };
    let (file, start) = read().map_err(|error: io::Error| {
        Error::of_file(path, "can't be checked", error, "have this user read it")
    })?;
    if start.starts_with(elf::MAGIC) {
        return Ok(Kind::Elf(file));
    }
    Ok(interpreter(&start).map_or(Kind::Text, Kind::Script))
}

/// Returns the interpreter that the start of a file names.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| b" \t\0".contains(byte)).filter(|word| !word.is_empty());
    words.next().map(|word| PathBuf::from(OsStr::from_bytes(word)))
}

/// Checks that the library can be loaded into a program, or into what runs it.
fn check(program: &Path, mut kind: Kind) -> Result<(), Refusal> {
    let mut path = program.to_owned();
    for _ in 0..=DEPTH {
        match kind {
            Kind::Elf(file) => return loadable(program, &path, file),
            Kind::Script(runs_it) => {
                executable(&runs_it)
                    .map_err(|error| Refusal::of_interpreter(program, &runs_it, &error))?;
                kind = self::kind(&runs_it)?;
                path = runs_it;
            }
            Kind::Text => break,
        }
    }
    Err(Refusal::not_executable(program, "its interpreter is none"))
}

/// Checks that the library can be loaded into the program of a file.
fn loadable(program: &Path, path: &Path, file: File) -> Result<(), Refusal> {
    let is_itself = program == path;
    let what = if is_itself { String::new() } else { format!("(of '{}')", program.display()) };
    let what = format!("{what} can't be run with its memory compressed");
    let what = what.trim_start();
    if let Some(why) = raised::by(&file) {
        let why = format!("{why}, and the system lets nobody load libraries into it");
        return Err(Error::of_file(path, what, why, "run it without 'uzram run'").into());
    }
    match elf::unfit(file) {
        Ok(None) => Ok(()),
        Ok(Some((why, remedy))) => Err(Error::of_file(path, what, why, remedy).into()),
        Err(error) => Err(Refusal::not_executable(path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_read_as_the_system_does() {
        for (start, expected) in [
            ("#!/bin/sh\necho", Some("/bin/sh")),
            ("#! \t/usr/bin/env python3\n", Some("/usr/bin/env")),
            ("#!/bin/sh", Some("/bin/sh")),
            ("#!relative -x", Some("relative")),
            ("#!\n/bin/sh", None),
            ("#! ", None),
            ("# !/bin/sh", None),
            ("", None),
        ] {
            assert_eq!(interpreter(start.as_bytes()), expected.map(PathBuf::from), "{start}");
        }
    }
}
