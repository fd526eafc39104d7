//! What a run has made on this machine and must not leave there, devices and mounts: undone by its
//! owner, or by a signal that ends the run, the last first.
//!
//! Lock order: the list, then a device's file. The list is held while something is made, so none is
//! missed; a signal takes it for good, so none is made after.

use std::process;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Error;

const SIGNALLED: i32 = 130;

static LIST: Mutex<List> = Mutex::new(List { next: 0, made: Vec::new() });

/// How something is undone.
pub type Action = Box<dyn FnOnce() -> Result<(), Error> + Send>;

struct List {
    next: u64,
    made: Vec<(u64, Action)>,
}

/// Something that was made, and is undone when this goes.
#[derive(Debug)]
pub struct Undo(u64);

impl Undo {
    /// Makes something, and says how it is undone.
    ///
    /// # Errors
    /// That of `make`, or signals can't be caught.
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

    /// Undoes it now, and tells whether that worked.
    pub fn now(self) -> Result<(), Error> {
        self.undo()
    }

    fn undo(&self) -> Result<(), Error> {
        let mut list = list();
        let place = list.made.iter().position(|(number, _)| *number == self.0);
        // Off the list first: its number or path may soon be another's.
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

fn list() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

// One thread waits for the signals that end a run, and undoes what the run has made.
fn catch_signals() -> Result<(), Error> {
    static CAUGHT: OnceLock<bool> = OnceLock::new();
    let caught = CAUGHT.get_or_init(|| {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
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
            eprintln!("bench: {error}");
        }
    }
    process::exit(SIGNALLED)
}
