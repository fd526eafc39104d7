//! File systems on block devices, unmounted when they are dropped.

use std::env::temp_dir;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;
use crate::tool::Tool;
use crate::undo::{Action, Undo, apart, whole};

const RIGHTS: &str = "run as root on a machine that may mount";
const MKFS: Tool = Tool { name: "mkfs.ext4", package: "e2fsprogs", remedy: RIGHTS };
const MOUNT: Tool = Tool { name: "mount", package: "mount", remedy: RIGHTS };
const LOSETUP: Tool = Tool { name: "losetup", package: "mount", remedy: RIGHTS };
const FSTRIM: Tool = Tool { name: "fstrim", package: "util-linux", remedy: RIGHTS };

const REMOVE_TRIES: usize = 100;
/// The maximum number of waits for a loop device to be detached. Each wait lasts 10 ms.
const GONE_TRIES: usize = 1000;

/// Creates an ext4 file system on a device.
pub(crate) fn make_ext4(device: &Path) -> Result<(), Error> {
    // Initializes the file system at once, so that the kernel does not write in the background
    // during a measurement.
    let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    MKFS.run(MKFS.command().args(options).arg(device)).map(drop)
}

/// A mounted device, which is unmounted on drop.
pub(crate) struct Mounted {
    pub(crate) dir: PathBuf,
    _undo: Undo,
}

impl Mounted {
    /// Mounts `device`, which contains a file system, with `options`.
    pub(crate) fn new(device: &Path, options: &[&str]) -> Result<Mounted, Error> {
        let (dir, undo) = Undo::of(|| {
            let dir = TempDir::new();
            let remedy = "set TMPDIR";
            let dir = dir.map_err(Error::file("create a directory in", &temp_dir(), remedy))?;
            MOUNT.run_whole(MOUNT.command().args(options).arg(device).arg(dir.path()))?;
            let path = dir.path().to_owned();
            let unmount: Action = Box::new(move || {
                let unmount = |how: &[&str]| {
                    let done = whole(apart("umount").args(how).arg(dir.path()));
                    done.is_ok_and(|done| done.status.success())
                };
                // The kernel completes a lazy unmount when the last open file below the mount point
                // is closed.
                let is_unmounted = unmount(&[]) || unmount(&["-l"]);
                // Retries the removal, because a running thread can still write below the mount
                // point.
                if is_unmounted {
                    (0..REMOVE_TRIES).find(|_| fs::remove_dir_all(dir.path()).is_ok());
                    return Ok(());
                }
                let reason = format!("{} can't be unmounted", dir.keep().display());
                Err(Error::ToolFailed { tool: "umount", reason, remedy: "unmount it by hand" })
            });
            Ok::<_, Error>((path, unmount))
        })?;
        Ok(Mounted { dir, _undo: undo })
    }

    /// Writes all data to the device, and discards the blocks that the file system has freed.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        let dir = File::open(&self.dir).map_err(Error::file("open", &self.dir, RIGHTS))?;
        let synced = rustix::fs::syncfs(dir).map_err(std::io::Error::from);
        synced.map_err(Error::file("sync", &self.dir, RIGHTS))?;
        FSTRIM.run(FSTRIM.command().arg(&self.dir)).map(drop)
    }
}

/// A loop device, which is detached from its file on drop.
pub(crate) struct Looped {
    pub(crate) node: PathBuf,
    _undo: Undo,
}

impl Looped {
    /// Attaches a loop device to `file` with direct I/O, which bypasses the page cache.
    pub(crate) fn new(file: &Path) -> Result<Looped, Error> {
        let (node, undo) = Undo::of(|| {
            let mut command = LOSETUP.command();
            let command = command.args(["-f", "--show", "--direct-io=on"]).arg(file);
            let told = LOSETUP.run_whole(command)?.stdout;
            let node = PathBuf::from(String::from_utf8_lossy(&told).trim_end());
            let gone = node.clone();
            let detach: Action = Box::new(move || detach(&gone));
            Ok::<_, Error>((node, detach))
        })?;
        Ok(Looped { node, _undo: undo })
    }
}

fn detach(node: &Path) -> Result<(), Error> {
    LOSETUP.run_whole(LOSETUP.command().arg("-d").arg(node))?;
    // The kernel detaches a loop device only when its last descriptor is closed.
    for _ in 0..GONE_TRIES {
        let backing = Path::new("/sys/block").join(node.file_name().unwrap_or_default());
        if !fs::exists(backing.join("loop/backing_file")).unwrap_or(false) {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(LOSETUP.failed(format!("{} is still in use", node.display())))
}
