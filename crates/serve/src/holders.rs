//! The users of a mounted disk: loop devices on the disk's file, with their mounts and swap areas.
//! A user of the disk can hold data that are not written to the disk yet. The search keeps only one
//! directory entry in memory at a time, because memory may be full.

use crate::mountinfo::{self, MountEntry, device_number};
use crate::policy::HOLDERS_DEPTH;
use rustix::fs::{AtFlags, StatxFlags, makedev, statx};
use std::ffi::OsStr;
use std::fs::{read_dir, read_to_string};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A block device whose data lie on the mount, directly or through other devices.
struct BlockDevice {
    name: String,
    number: u64,
}

/// Returns descriptions of the users of the file system with the number `device`, for a message.
/// Sends no request to that file system.
pub(crate) fn of(device: u64) -> Vec<String> {
    let mounts = mountinfo::all().unwrap_or_default();
    let swaps = read_to_string("/proc/swaps").unwrap_or_default();
    let mut found = Vec::new();
    for block in entries("/sys/block") {
        let Ok(file) = std::fs::read(block.join("loop/backing_file")) else { continue };
        let file = OsStr::from_bytes(file.strip_suffix(b"\n").unwrap_or(&file));
        if number_of_file_system(Path::new(file)) != Some(device) {
            continue;
        }
        let mut above = Vec::new();
        add_devices(&block, HOLDERS_DEPTH, &mut above);
        let name = above.first().map_or("?", |of| of.name.as_str());
        let uses: String = above.iter().flat_map(|of| uses(of, &mounts, &swaps)).collect();
        found.push(format!("loop device /dev/{name}{uses}"));
    }
    found
}

/// Returns the number of the file system that contains a file.
fn number_of_file_system(file: &Path) -> Option<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(mountinfo::open(file).ok()?, "", flags, StatxFlags::TYPE).ok()?;
    Some(makedev(stat.stx_dev_major, stat.stx_dev_minor))
}

/// Adds the device that a directory of sysfs describes, its partitions, and the devices that are
/// built on them.
fn add_devices(block: &Path, depth: usize, found: &mut Vec<BlockDevice>) {
    let number = read_to_string(block.join("dev")).ok().and_then(|text| device_number(&text));
    let (Some(number), Some(name), 1..) = (number, block.file_name(), depth) else { return };
    found.push(BlockDevice { name: name.to_string_lossy().into_owned(), number });
    let partitions = entries(block).filter(|of| of.join("partition").exists());
    for above in partitions.chain(entries(block.join("holders"))) {
        add_devices(&above.canonicalize().unwrap_or(above), depth - 1, found);
    }
}

/// Returns the mounts and swap areas of a block device.
fn uses(device: &BlockDevice, mounts: &[MountEntry], swaps: &str) -> Vec<String> {
    let path = format!("/dev/{}", device.name);
    let is_its =
        |mount: &&MountEntry| mount.device == device.number || mount.source == path.as_bytes();
    let mounted = mounts.iter().filter(is_its).map(|mount| {
        let dir = mountinfo::unescaped(&mount.dir);
        format!(", mounted at '{}'", dir.to_string_lossy().escape_debug())
    });
    let is_swap = swaps.lines().any(|line| line.split(' ').next() == Some(&path));
    mounted.chain(is_swap.then(|| format!(", with swap on {path}"))).collect()
}

fn entries(dir: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}
