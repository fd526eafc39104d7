//! The requirements of an experiment on the machine.

use std::env::temp_dir;
use std::fs::{self, File};
use std::process::{Command, Stdio};

use measure::memory::bytes as bytes_of;

use crate::Error;
use crate::size::mebibytes;

/// A requirement of an experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// The privileges of root.
    Root,
    /// `/dev/fuse`.
    Fuse,
    /// A program, and the Debian package that contains it.
    Program(&'static str, &'static str),
    /// Bytes that must be free in the directory for temporary files.
    Disk(u64),
    /// Bytes of memory that must be available.
    Memory(u64),
    /// Another requirement. The function returns an error with the reason if the machine does not
    /// meet it.
    Met(fn() -> Result<(), Error>),
}

impl Need {
    /// Returns a text with the requirement and its remedy, or `None` if the machine meets the
    /// requirement.
    pub(crate) fn lacking(&self) -> Option<String> {
        let (is_there, otherwise) = match *self {
            Need::Root => {
                (rustix::process::geteuid().is_root(), "it needs root: run it as root".to_owned())
            }
            Need::Fuse => {
                let opened = File::options().read(true).write(true).open("/dev/fuse");
                let is_there = opened.is_ok();
                (is_there, "it needs /dev/fuse: load the module fuse".to_owned())
            }
            Need::Program(name, package) => {
                let remedy = format!("it needs {name}: install the package {package}");
                (is_program(name), remedy)
            }
            Need::Disk(bytes) => {
                let dir = temp_dir();
                let free = rustix::fs::statvfs(&dir).map(|of| of.f_bavail * of.f_frsize);
                let room = format!("{:.0} MiB free in {}", mebibytes(bytes), dir.display());
                (free.is_ok_and(|free| free >= bytes), format!("it needs {room}: set TMPDIR"))
            }
            Need::Memory(bytes) => {
                let told = fs::read_to_string("/proc/meminfo").unwrap_or_default();
                let free = bytes_of(&told, "MemAvailable");
                let remedy = format!("it needs {:.0} MiB of memory", mebibytes(bytes));
                (free.is_some_and(|free| free >= bytes), remedy)
            }
            Need::Met(is_met) => {
                let met = is_met();
                (met.is_ok(), met.err().map_or_else(String::new, |error| error.to_string()))
            }
        };
        (!is_there).then_some(otherwise)
    }
}

/// Returns true if the program can be started.
fn is_program(name: &str) -> bool {
    let mut command = Command::new(name);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.arg("--version").status().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let told = Need::Program("no-such-program", "some-package").lacking().unwrap();
        assert!(told.contains("no-such-program") && told.contains("some-package"), "{told}");
        assert_eq!(Need::Program("sh", "dash").lacking(), None);
        assert_eq!(Need::Disk(1).lacking(), None);
        assert!(Need::Disk(u64::MAX).lacking().unwrap().contains("TMPDIR"));
        assert!(Need::Memory(u64::MAX).lacking().is_some());
        assert_eq!(Need::Memory(1).lacking(), None);
        let unmet = || Err(Error::Setup { reason: "none".into(), remedy: "some" });
        assert!(Need::Met(unmet).lacking().unwrap().contains("none"));
        assert_eq!(Need::Met(|| Ok(())).lacking(), None);
    }
}
