//! The devices that this process has made, so that each of them is removed: by its owner, or by a signal.
//!
//! Lock order: the list, then a device's file. The list is held while a device is made, so none is missed; a signal
//! takes it for good, so none is made after.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Error;

const CONTROL: &str = "/sys/class/zram-control";
const SIGNALLED: i32 = 130;
const BUSY_WAITS: u32 = 100;
const BUSY_WAIT: Duration = Duration::from_millis(20);

static LIST: Mutex<Vec<Arc<Made>>> = Mutex::new(Vec::new());

/// A device of this process.
#[derive(Debug)]
pub(super) struct Made {
    number: u32,
    // Open while in use; a device that is open cannot be removed.
    pub(super) file: RwLock<Option<File>>,
}

/// Why no device could be made.
pub(super) enum Refused {
    /// There is no kernel zram for us: the reason.
    Absent(String),
    /// It should have worked.
    Failed(Error),
}

impl Made {
    /// Has the kernel make a device, to be given to [`remove`] at the end.
    pub(super) fn new() -> Result<Arc<Made>, Refused> {
        catch_signals().map_err(Refused::Failed)?;
        let path = Path::new(CONTROL).join("hot_add");
        let mut list = list();
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Refused::Absent(format!("this kernel has no zram ({CONTROL} is missing)"))
            }
            io::ErrorKind::PermissionDenied => {
                Refused::Absent(format!("no right to read {}", path.display()))
            }
            _ => Refused::Failed(Error::file("read", &path, "see the kernel's log")(error)),
        })?;
        let number = text.trim().parse::<u32>().map_err(|_| {
            let expected = "the number of the device it made";
            Refused::Failed(Error::Malformed { thing: path.display().to_string(), text, expected })
        })?;
        let made = Arc::new(Made { number, file: RwLock::new(None) });
        list.push(Arc::clone(&made));
        Ok(made)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// `/dev/zramN`.
    pub(super) fn node(&self) -> PathBuf {
        PathBuf::from(format!("/dev/zram{}", self.number))
    }

    /// `/sys/block/zramN/NAME`.
    pub(super) fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/zram{}/{name}", self.number))
    }

    fn close_and_remove(&self) -> Result<(), Error> {
        drop(self.file.write().unwrap_or_else(PoisonError::into_inner).take());
        write_patiently(&self.attribute("reset"), "1")?;
        write_patiently(&Path::new(CONTROL).join("hot_remove"), &self.number.to_string())
    }
}

/// Closes, resets and removes a device, once.
pub(super) fn remove(made: &Arc<Made>) -> Result<(), Error> {
    let mut list = list();
    let Some(place) = list.iter().position(|other| Arc::ptr_eq(other, made)) else { return Ok(()) };
    // Off the list first: the number may soon be another process's.
    list.swap_remove(place).close_and_remove()
}

fn list() -> MutexGuard<'static, Vec<Arc<Made>>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

// Something else, such as udev, may look at a device for a moment.
fn write_patiently(path: &Path, text: &str) -> Result<(), Error> {
    let mut waits = 0;
    loop {
        match fs::write(path, text) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && waits < BUSY_WAITS => {
                waits += 1;
                thread::sleep(BUSY_WAIT);
            }
            done => {
                let remedy = "unmount and close the device, then write 1 to its reset and its number to hot_remove";
                return done.map_err(Error::file("write to", path, remedy));
            }
        }
    }
}

// One thread waits for the signals that end a run, and removes what the run has made.
fn catch_signals() -> Result<(), Error> {
    static CAUGHT: OnceLock<bool> = OnceLock::new();
    let caught = CAUGHT.get_or_init(|| {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
        let waiting = signals.and_then(|mut signals| {
            thread::Builder::new().name("signals".into()).spawn(move || {
                if signals.forever().next().is_some() {
                    remove_all_and_exit();
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

fn remove_all_and_exit() -> ! {
    let list = list();
    for made in list.iter() {
        if let Err(error) = made.close_and_remove() {
            eprintln!("bench: {error}");
        }
    }
    process::exit(SIGNALLED)
}
