//! Detects whether a file lies on a disk that this process serves. A save of the disk to such a
//! file would wait for itself.
//!
//! The search follows partitions, mapped devices, loop devices and their files, and the upper layer
//! of an overlay. The search can't follow network file systems, or other mount namespaces. If a
//! file system spans several devices, the search follows only the first device. The search also
//! can't detect which server a network block device uses.

use crate::mountinfo;
use crate::policy::OWN_DEPTH;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, fstat, major, minor};
use rustix_futex_sync::Mutex;
use std::ffi::OsStr;
use std::fs::{read_dir, read_to_string};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The numbers of the file systems that this process has mounted.
static MOUNTS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// A file system that this process has mounted. A drop removes the file system from the list.
#[derive(Debug)]
pub(crate) struct OwnMount(u64);

impl OwnMount {
    pub(crate) fn new(device: u64) -> Self {
        MOUNTS.lock().push(device);
        OwnMount(device)
    }
}

impl Drop for OwnMount {
    fn drop(&mut self) {
        MOUNTS.lock().retain(|device| *device != self.0);
    }
}

/// Whether NBD clients are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// No client is connected, so no network block device is this disk.
    None,
    /// Clients are connected, so any network block device may be this disk.
    Some,
}

/// Returns the reason why a file at `path` lies, or may lie, on a disk that this process serves.
/// Returns `None` if the search finds no reason.
pub fn lies_on_disk(path: &Path, clients: Clients) -> Option<String> {
    let search = DiskSearch { clients };
    let there = std::fs::canonicalize(path).ok();
    let parent = || path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let there = there.unwrap_or_else(|| parent().unwrap_or(Path::new(".")).to_owned());
    let below = search.below_path(&there, 0)?;
    let path = path.to_string_lossy();
    Some(format!("'{}' lies on the disk itself: {below}; save it elsewhere", path.escape_debug()))
}

struct DiskSearch {
    clients: Clients,
}

impl DiskSearch {
    fn below_path(&self, path: &Path, depth: usize) -> Option<String> {
        self.below_file(&mountinfo::open(path).ok()?, depth)
    }

    /// Returns the reason why a file, or the contents of a block device, lie on the disk.
    fn below_file(&self, file: &OwnedFd, depth: usize) -> Option<String> {
        let stat = fstat(file).ok()?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
            return self.below_device(stat.st_rdev, depth);
        }
        let found = self.below_device(stat.st_dev, depth);
        found.or_else(|| self.below_mount(&mountinfo::of(file).ok()?, depth))
    }

    /// Does the same as `below_file` for a mount whose file system's number is not the number of a
    /// device.
    fn below_mount(&self, mount: &mountinfo::MountEntry, depth: usize) -> Option<String> {
        if depth == OWN_DEPTH {
            return None;
        }
        // A mount of nbdfuse does not name its server, but has the default source of FUSE mounts.
        let may_be_nbdfuse = mount.fs_type == "fuse" && mount.source == b"/dev/fuse";
        if self.clients == Clients::Some && may_be_nbdfuse {
            return Some("by nbdfuse, or may".to_owned());
        }
        if mount.fs_type == "overlay" {
            let mut options = mount.options.split(|&byte| byte == b',');
            let upper = options.find_map(|of| of.strip_prefix(b"upperdir="))?;
            return self.below_path(&mountinfo::unescaped(upper), depth + 1);
        }
        let stat = fstat(mountinfo::open(&mountinfo::unescaped(&mount.source)).ok()?).ok()?;
        let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        if is_device { self.below_device(stat.st_rdev, depth + 1) } else { None }
    }

    fn below_device(&self, device: u64, depth: usize) -> Option<String> {
        if MOUNTS.lock().contains(&device) {
            return Some("it is mounted there".to_owned());
        }
        let link = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        let told = std::fs::canonicalize(link).ok().filter(|_| depth < OWN_DEPTH)?;
        let name = told.file_name()?;
        if self.clients == Clients::Some && name.as_bytes().starts_with(b"nbd") {
            return Some(format!("by {}, or may", name.to_string_lossy()));
        }
        if let Ok(file) = std::fs::read(told.join("loop/backing_file")) {
            let file = OsStr::from_bytes(file.strip_suffix(b"\n").unwrap_or(&file));
            return self.below_path(Path::new(file), depth + 1);
        }
        let whole = told.join("partition").exists().then(|| told.parent().map(Path::to_owned));
        let slaves = read_dir(told.join("slaves")).into_iter().flatten().flatten();
        let slaves: Vec<PathBuf> = slaves.map(|slave| slave.path()).collect();
        let below = whole.flatten().into_iter().chain(slaves);
        below.filter_map(|of| number(&of)).find_map(|device| self.below_device(device, depth + 1))
    }
}

/// Parses the device number in a file of sysfs.
fn number(told: &Path) -> Option<u64> {
    mountinfo::device_number(&read_to_string(told.join("dev")).ok()?)
}
