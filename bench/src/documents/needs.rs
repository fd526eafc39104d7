//! What an experiment needs of the machine.

use std::env::temp_dir;
use std::path::Path;
use std::process::{Command, Stdio};

use measure::memory::MachineMemory;

use crate::size::mebibytes;

/// See the head of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Root's rights.
    Root,
    /// `/dev/fuse`.
    Fuse,
    /// A program, and Debian's package that holds it.
    Program(&'static str, &'static str),
    /// Bytes that are free where temporary files go.
    Disk(u64),
    /// Bytes of memory that are free.
    Memory(u64),
}

impl Need {
    /// Returns what is missing and how to have it, if it is.
    pub(crate) fn lacking(&self) -> Option<String> {
        let (is_there, otherwise) = match *self {
            Need::Root => {
                (rustix::process::geteuid().is_root(), "it needs root: run it as root".to_owned())
            }
            Need::Fuse => {
                let is_there = Path::new("/dev/fuse").exists();
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
                let free = MachineMemory::now().map(|memory| memory.free);
                let remedy = format!("it needs {:.0} MiB of free memory", mebibytes(bytes));
                (free.is_ok_and(|free| free >= bytes), remedy)
            }
        };
        (!is_there).then_some(otherwise)
    }
}

/// Whether a program can be started.
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
    }
}
