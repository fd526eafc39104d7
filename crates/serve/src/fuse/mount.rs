//! Mounts the file system, and unmounts only mounts of this process.
//!
//! The FUSE library gets only the connection. If the library had the path too, it would unmount at
//! its end any file system that is mounted there. A mount is identified by the number of its file
//! system, which is unique while the mount's connection exists. The mount is unmounted by a
//! descriptor, so a later mount at the same path is not affected.

use super::node::Node;
use crate::holders;
use crate::log::Log;
use crate::mountinfo::{self, MountEntry};
use crate::own::OwnMount;
use crate::policy::{DEAD_MOUNTS_MAX, FUSE_STACK, MOUNT_ANSWERS_WITHIN};
use crate::spawn::spawn_within;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, makedev};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name and type of uzram's file systems in the system's list of mounts.
const NAME: &str = "uzram";
const TYPE: &str = "fuse.uzram";

/// A mount of this process.
#[derive(Debug)]
pub(super) struct Mount {
    dir: PathBuf,
    connection: OwnedFd,
    device: u64,
    _own: OwnMount,
}

impl Mount {
    /// Unmounts dead mounts of killed servers at a directory, and then mounts at that directory.
    /// Returns the connection by which the kernel sends requests.
    pub(super) fn new(dir: &Path, log: &Log) -> io::Result<(Self, OwnedFd)> {
        detach_dead(dir, log)?;
        // The system would mount over a file that is not a directory, and hide the contents of that
        // file.
        let mode = stat_of(&mountinfo::open(dir)?)?.stx_mode;
        if FileType::from_raw_mode(mode.into()) != FileType::Directory {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let (connection, device) = match mount_directly(dir) {
            Err(Errno::PERM | Errno::NOSYS | Errno::ACCESS) => super::fusermount::mount(dir, NAME)
                .and_then(|connection| Ok((connection, mounted_at(dir)?)))?,
            done => done?,
        };
        let own = OwnMount::new(device);
        let mount = Mount { dir: dir.to_owned(), connection, device, _own: own };
        let connection = mount.connection.try_clone()?;
        Ok((mount, connection))
    }

    /// Returns descriptions of the devices that use the mount, for a message.
    pub(super) fn holders(&self) -> Vec<String> {
        let device = self.device;
        let search = move || holders::of(device);
        spawn_within("holders", FUSE_STACK, MOUNT_ANSWERS_WITHIN, search).unwrap_or_default()
    }

    /// Writes the disk's dirty pages from the kernel's cache to the disk.
    pub(super) fn sync(&self, within: Duration) {
        let disk = self.dir.join(Node::Disk.name());
        let sync = move || std::fs::File::open(disk).and_then(|disk| disk.sync_all());
        let _ = spawn_within("sync", FUSE_STACK, within, sync);
    }

    /// Returns the directory, escaped for messages.
    pub(super) fn name(&self) -> String {
        format!("'{}'", self.dir.to_string_lossy().escape_debug())
    }

    /// Unmounts the file system if it is still mounted, even if programs use it.
    ///
    /// # Errors
    /// Fails if another file system is mounted over or inside this file system, because that file
    /// system would be unmounted, too.
    pub(super) fn detach(&mut self) -> io::Result<()> {
        let is_there = mountinfo::all()?.iter().any(|entry| entry.device == self.device);
        if !is_there || !is_alive(&self.connection) {
            return Ok(());
        }
        let root = mountinfo::open(&self.dir)?;
        if device_of(&root)? != self.device {
            return Err(io::Error::other("something else is mounted over it"));
        }
        detach(&self.dir, &root)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // `drop` can't report a failure. `Mounted::stop` calls `detach` before, and logs its
        // failure.
        let _ = self.detach();
    }
}

/// Mounts at a directory if this process has the privilege to mount. Returns the connection and the
/// number of the file system.
fn mount_directly(dir: &Path) -> rustix::io::Result<(OwnedFd, u64)> {
    let connection = fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    for (key, value) in [
        ("source", NAME.to_owned()),
        ("subtype", NAME.to_owned()),
        ("fd", connection.as_raw_fd().to_string()),
        ("rootmode", "40000".to_owned()),
        ("user_id", uid.as_raw().to_string()),
        ("group_id", gid.as_raw().to_string()),
    ] {
        fsconfig_set_string(&context, key, value)?;
    }
    fsconfig_set_flag(&context, "default_permissions")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let device = device_of(&mount)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_SYMLINKS;
    move_mount(&mount, "", CWD, dir, flags)?;
    Ok((connection, device))
}

/// Returns the number of the file system that was just mounted.
fn mounted_at(dir: &Path) -> io::Result<u64> {
    let root = mountinfo::open(dir)?;
    if is_uzram(&mountinfo::of(&root)?) {
        Ok(device_of(&root)?)
    } else {
        Err(io::Error::other("something else has been mounted there since"))
    }
}

/// Returns the kernel's cached attributes of a file, without a request to the file system's server.
fn stat_of(file: &OwnedFd) -> rustix::io::Result<Statx> {
    fs::statx(file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)
}

/// Returns the number of a file's file system.
fn device_of(file: &OwnedFd) -> rustix::io::Result<u64> {
    let stat = stat_of(file)?;
    Ok(makedev(stat.stx_dev_major, stat.stx_dev_minor))
}

/// Returns whether a connection is still alive.
fn is_alive(connection: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::empty())];
    let told = poll(&mut polled, Some(&Timespec::default()));
    told.is_err() || !polled[0].revents().contains(PollFlags::ERR)
}

/// Returns whether a uzram server created the mount.
fn is_uzram(entry: &MountEntry) -> bool {
    entry.fs_type == TYPE || entry.fs_type == "fuse" && entry.source == NAME.as_bytes()
}

/// Unmounts the mounts that killed uzram servers left at a directory. A dead mount of another
/// program is an error, and so is a live mount of uzram.
fn detach_dead(dir: &Path, log: &Log) -> io::Result<()> {
    for _ in 0..DEAD_MOUNTS_MAX {
        let root = mountinfo::open(dir)?;
        let entry = mountinfo::of(&root)?;
        if !entry.fs_type.starts_with("fuse") {
            break;
        }
        if !is_dead(&root) {
            // With a new mount over the existing one, users could not know which disk they use.
            let why = "it is the mount of another server, or lies in one: stop that server, or \
                give another directory";
            return if is_uzram(&entry) { Err(io::Error::other(why)) } else { Ok(()) };
        }
        if !is_uzram(&entry) {
            return Err(Errno::NOTCONN.into());
        }
        detach(dir, &root)?;
        let dir = dir.to_string_lossy();
        log.line(format_args!(
            "unmounted '{}', where a killed server had left its mount",
            dir.escape_debug()
        ));
    }
    Ok(())
}

/// Returns whether the server of a file's file system has ended.
fn is_dead(file: &OwnedFd) -> bool {
    let Ok(file) = file.try_clone() else { return false };
    // A stuck server never answers, so another thread sends the request.
    let asked = spawn_within("is it dead", FUSE_STACK, MOUNT_ANSWERS_WITHIN, move || {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let asked = fs::statx(&file, "", flags, StatxFlags::BASIC_STATS);
        drop(file);
        asked.err()
    });
    asked == Some(Some(Errno::NOTCONN))
}

/// Unmounts the mount at `dir`, whose root directory is open as `root`.
fn detach(dir: &Path, root: &OwnedFd) -> io::Result<()> {
    let id = mountinfo::of(root)?.id;
    if mountinfo::all()?.iter().any(|entry| entry.parent == id) {
        return Err(io::Error::other("something else is mounted in it"));
    }
    // The lazy unmount through the descriptor succeeds even if programs use the mount.
    let by_descriptor = format!("/proc/self/fd/{}", root.as_raw_fd());
    match unmount(by_descriptor, UnmountFlags::DETACH) {
        Err(Errno::PERM) => super::fusermount::unmount(dir),
        done => Ok(done?),
    }
}
