//! Devices, mounts and other objects that a run creates on this machine and must remove. The owner
//! of an object undoes it on drop. A signal that ends the run undoes all objects, the newest first.
//!
//! Lock order: the list, then a device's file. The list is locked while an object is created, so
//! that every created object is in the list. The thread that receives a signal locks the list and
//! never unlocks it, so that no further object is created.

use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::Error;

const SIGNALLED: i32 = 130;
/// The signals that end a run.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

static LIST: Mutex<List> = Mutex::new(List { next: 0, made: Vec::new() });

/// The action that undoes the creation of an object.
pub type Action = Box<dyn FnOnce() -> Result<(), Error> + Send>;

struct List {
    next: u64,
    made: Vec<(u64, Action)>,
}

/// An object whose undo action runs on drop.
#[derive(Debug)]
pub struct Undo(u64);

impl Undo {
    /// Creates an object together with the action that undoes it.
    ///
    /// # Errors
    /// Fails if `make` fails, or if signals can't be caught.
    pub fn of<T, E: From<Error>>(
        make: impl FnOnce() -> Result<(T, Action), E>,
    ) -> Result<(T, Undo), E> {
        catch_signals()?;
        let mut list = list();
        let (made, action) = make()?;
        let number = list.next;
        list.next += 1;
        list.made.push((number, action));
        Ok((made, Undo(number)))
    }

    /// Runs the undo action now and returns its error.
    pub fn now(self) -> Result<(), Error> {
        self.undo()
    }

    fn undo(&self) -> Result<(), Error> {
        let mut list = list();
        let place = list.made.iter().position(|(number, _)| *number == self.0);
        // Removes the action from the list before it runs. After the action has removed its object,
        // another object can get the same number or path.
        place.map_or(Ok(()), |place| (list.made.remove(place).1)())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            eprintln!("bench: {error}");
        }
    }
}

/// Returns a command in a separate process group, so that Ctrl-C on a terminal does not signal it.
pub fn apart(program: &str) -> Command {
    let mut command = Command::new(program);
    command.process_group(0);
    command
}

/// Runs a command made by [`apart`] until it exits. Commands that create or undo an object need
/// this. Before the child enters its own group, a signal for this process's group can kill it. The
/// command is then run again.
///
/// # Errors
/// Fails if the command can't be started.
pub fn whole(command: &mut Command) -> io::Result<Output> {
    loop {
        let output = command.output()?;
        if !output.status.signal().is_some_and(|signal| ENDING.contains(&signal)) {
            return Ok(output);
        }
    }
}

/// Runs a command until it exits. A signal that ends the run also kills the command's process
/// group. Must not be called while an object is created or undone.
///
/// # Errors
/// Fails if signals can't be caught. The inner result is an error if the command can't be started.
pub fn ended(command: &mut Command) -> Result<io::Result<Output>, Error> {
    command.process_group(0);
    let spawned = Undo::of(|| {
        let child = command.spawn().map_err(Started::Not)?;
        let process = Pid::from_child(&child);
        let end: Action = Box::new(move || {
            let _gone = kill_process_group(process, Signal::KILL);
            Ok(())
        });
        Ok::<_, Started>((child, end))
    });
    let (mut child, undo) = match spawned {
        Ok(spawned) => spawned,
        Err(Started::Not(error)) => return Ok(Err(error)),
        Err(Started::Uncaught(error)) => return Err(error),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = thread::scope(|scope| {
        let stderr = scope.spawn(|| all(stderr));
        (all(stdout), stderr.join().unwrap_or_default())
    });
    // NOWAIT leaves the process unreaped until its undo action runs, so the kernel does not reuse
    // its id.
    let process = Pid::from_child(&child);
    let _status = waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    undo.now()?;
    Ok(child.wait().map(|status| Output { status, stdout, stderr }))
}

/// The reason why a command was not started.
enum Started {
    Not(io::Error),
    Uncaught(Error),
}

impl From<Error> for Started {
    fn from(error: Error) -> Self {
        Started::Uncaught(error)
    }
}

fn all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // If a read fails, the bytes read before it suffice.
    let _read = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    bytes
}

fn list() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a directory. On drop, the directory is removed with all its contents.
///
/// # Errors
/// Fails if the directory can't be created. The error includes `remedy`.
pub fn folder(prefix: &str, within: &Path, remedy: &'static str) -> Result<(PathBuf, Undo), Error> {
    Undo::of(|| {
        let dir = TempDir::with_prefix_in(prefix, within);
        let dir = dir.map_err(Error::file("create in", within, remedy))?;
        let path = dir.path().to_owned();
        let end: Action = Box::new(move || {
            let path = dir.path().to_owned();
            dir.close().map_err(Error::file("remove", &path, remedy))
        });
        Ok((path, end))
    })
}

/// Starts a thread that waits for a signal that ends the run, and then undoes all objects of the
/// run.
///
/// # Errors
/// Fails if the thread can't be started.
pub fn catch_signals() -> Result<(), Error> {
    static CAUGHT: OnceLock<bool> = OnceLock::new();
    let caught = CAUGHT.get_or_init(|| {
        let signals = Signals::new(ENDING);
        let waiting = signals.and_then(|mut signals| {
            thread::Builder::new().name("signals".into()).spawn(move || {
                if signals.forever().next().is_some() {
                    undo_all_and_exit();
                }
            })
        });
        waiting.is_ok()
    });
    if *caught {
        return Ok(());
    }
    let reason = "the signals that end a run could not be caught".to_string();
    Err(Error::Setup { reason, remedy: "let this process have a thread more (ulimit -u)" })
}

fn undo_all_and_exit() -> ! {
    let mut list = list();
    while let Some((_, action)) = list.made.pop() {
        if let Err(error) = action() {
            // Standard error may be closed, but the remaining actions must run.
            let _told = writeln!(io::stderr(), "bench: {error}");
        }
    }
    process::exit(SIGNALLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_a_signal_ends_is_run_again() {
        let dir = TempDir::new().unwrap();
        let mut shell = apart("sh");
        shell.current_dir(&dir).args(["-c", "test -e begun && exit 3; : > begun; kill -INT $$"]);
        assert_eq!(whole(&mut shell).unwrap().status.code(), Some(3));
        assert!(whole(&mut apart("/no/such/program")).is_err());
    }
}
