//! The kernel devices that this process creates. Each device is always removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use crate::Error;
use crate::undo::{Action, Undo};

const CONTROL: &str = "/sys/class/zram-control";
const BUSY_WAITS: u32 = 1500;
const BUSY_WAIT: Duration = Duration::from_millis(20);

/// A device that this process has created.
#[derive(Debug)]
pub(super) struct Made {
    number: u32,
    // The device's file, if it is open. An open device can't be removed.
    pub(super) file: RwLock<Option<File>>,
}

/// The reason why no device could be created.
pub(super) enum Refused {
    /// No zram device of the kernel is available, for this reason.
    Absent(String),
    /// An unexpected error.
    Failed(Error),
}

impl Made {
    /// Creates a device in the kernel. The undo action closes, resets and removes it.
    pub(super) fn new() -> Result<(Arc<Made>, Undo), Refused> {
        Undo::of(|| {
            let made = Arc::new(Made { number: hot_add()?, file: RwLock::new(None) });
            let gone = made.clone();
            let remove: Action = Box::new(move || gone.close_and_remove());
            Ok((made, remove))
        })
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn node(&self) -> PathBuf {
        PathBuf::from(format!("/dev/zram{}", self.number))
    }

    pub(super) fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/zram{}/{name}", self.number))
    }

    fn close_and_remove(&self) -> Result<(), Error> {
        drop(self.file.write().unwrap_or_else(PoisonError::into_inner).take());
        write_patiently(&self.attribute("reset"), "1")?;
        write_patiently(&Path::new(CONTROL).join("hot_remove"), &self.number.to_string())
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Failed(error)
    }
}

fn hot_add() -> Result<u32, Refused> {
    let path = Path::new(CONTROL).join("hot_add");
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Refused::Absent(format!("this kernel has no zram ({CONTROL} is missing)"))
        }
        io::ErrorKind::PermissionDenied => {
            Refused::Absent(format!("no right to read {}", path.display()))
        }
        _ => Refused::Failed(Error::file("read", &path, "see the kernel's log")(error)),
    })?;
    text.trim().parse().map_err(|_| {
        let expected = "the number of the device it made";
        Refused::Failed(Error::Malformed { thing: path.display().to_string(), text, expected })
    })
}

// Retries a failed write. Another process such as udev can hold the device open for a moment. A
// file system that was unmounted while in use also holds the device until its work is complete.
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
