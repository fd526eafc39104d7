//! Finds the program that the kernel would execute for a name, as `execvp` does.

use crate::refusal::Refusal;
use crate::rights::rights;
use executable::{DEPTH, Kind, Loading, Rights, Script};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directories that are searched if PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// The shell that runs a text file whose first line names no interpreter.
const SHELL: &str = "/bin/sh";

/// A program that can be run.
#[derive(Debug)]
pub(crate) struct Target {
    file: PathBuf,
    is_for_shell: bool,
    /// Whether a host can be injected into the program. No host is injected if the kernel starts
    /// the program in secure mode, or if the program's loader is not installed. A missing loader is
    /// reported by the host that runs the program.
    pub(crate) may_be_injected: bool,
}

impl Target {
    /// Returns the file to execute, its argument 0, and the path of the script if a shell runs the
    /// program. `name` is argument 0 of the program.
    fn execution<'a>(&'a self, name: &'a OsStr) -> (&'a Path, &'a OsStr, Option<&'a Path>) {
        match self.is_for_shell {
            true => (Path::new(SHELL), OsStr::new(SHELL), Some(&self.file)),
            false => (&self.file, name, None),
        }
    }

    /// Returns the command that executes the program.
    pub(crate) fn command(&self, name: &OsStr) -> Command {
        let (file, name, script) = self.execution(name);
        let mut command = Command::new(file);
        command.arg0(name).args(script);
        command
    }

    /// Returns the command by which `host` runs the program.
    pub(crate) fn hosted(&self, name: &OsStr, host: &Path, settings: &OsStr) -> Command {
        let (file, name, script) = self.execution(name);
        let mut command = Command::new(host);
        command.arg(settings).arg(file).arg(file).arg(name).args(script);
        command
    }
}

/// Finds a program, and checks that it can be run.
pub(crate) fn find(name: &OsStr) -> Result<Target, Refusal> {
    let file = look_up(name)?;
    let kind = kind(&file)?;
    let is_for_shell = matches!(kind, Kind::Text);
    let shell = || Kind::Script(Script { interpreter: SHELL.into(), argument: None });
    let may_be_injected = check(&file, if is_for_shell { shell() } else { kind })?;
    Ok(Target { file, is_for_shell, may_be_injected })
}

/// Returns the path of the file that a name denotes.
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
        // An empty entry of PATH is the working directory. The result contains a slash, so `exec`
        // does not search PATH for the result.
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

/// Checks that this user is allowed to execute a file.
fn executable(file: &Path) -> io::Result<()> {
    if !file.metadata()?.is_file() {
        let why = "it is not a regular file";
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS)?)
}

fn kind(path: &Path) -> Result<Kind<File>, Refusal> {
    File::open(path).and_then(Kind::of).map_err(|error| {
        Refusal::of_file(path, "can't be checked", error, "have this user read it")
    })
}

/// Checks that a host can run a program, or the interpreter of a script. Returns whether a host can
/// be injected.
fn check(program: &Path, mut kind: Kind<File>) -> Result<bool, Refusal> {
    let mut path = program.to_owned();
    for _ in 0..=DEPTH {
        match kind {
            Kind::Elf(file) => return check_elf(program, &path, file),
            Kind::Script(Script { interpreter: runs_it, .. }) => {
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

/// Checks that a host can run the program in a file. Returns whether a host can be injected.
fn check_elf(program: &Path, path: &Path, file: File) -> Result<bool, Refusal> {
    let of = if program == path { String::new() } else { format!("(of '{}') ", program.display()) };
    let what = &format!("{of}can't be run with its memory compressed");
    let rights = rights(&file).map_err(|error| Refusal::of_start(path, &error.into()))?;
    if let Rights::Raised(reason) = rights {
        let why = format!("{reason}, and a host can't give it these rights");
        return Err(Refusal::of_file(path, what, why, "run it without 'uzram run'"));
    }
    match Loading::of(file, Path::is_file) {
        Ok(Loading::Program) => Ok(rights == Rights::Same),
        Ok(Loading::NoLoader) => Ok(false),
        Ok(Loading::Foreign | Loading::Host) => {
            let why = "it is not for 64-bit x86-64";
            Err(Refusal::of_file(path, what, why, "give a program that is"))
        }
        Err(error) => Err(Refusal::not_executable(path, error)),
    }
}
