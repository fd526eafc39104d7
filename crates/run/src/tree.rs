//! The file through which the processes of a program share one limit.
//!
//! The file has no path. Each executed program inherits a descriptor of the file. The runtime
//! defines the file's contents (`procgroup::ProcessGroup`). This module creates the file, filled
//! with zeros, and reads it.

use crate::policy::{LAST, TABLE};
use crate::refusal::Refusal;
use procgroup::GroupSnapshot;
use rustix::fs::{
    CWD, FileType, MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat,
    ftruncate, memfd_create, openat,
};
use rustix::io::{Errno, FdFlags, Result, fcntl_dupfd_cloexec, fcntl_setfd, pread};
use rustix::process::{Resource, getrlimit};
use std::fs::read_link;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

/// The name of the file in the links of /proc/PID/fd.
const NAME: &str = "uzram-run";
/// Seals that forbid changes of the file's size, so that the file never becomes shorter than a
/// mapping of it.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The shared file of a program that this command starts.
#[derive(Debug)]
pub(crate) struct Tree {
    file: OwnedFd,
    /// The setting by which the runtime finds the file.
    pub(crate) setting: String,
}

impl Tree {
    pub(crate) fn new() -> std::result::Result<Self, Refusal> {
        Tree::make().map_err(|error| {
            Refusal::Failed(format!(
                "memory that processes share can't be had: {error}; allow memfd_create, and more \
                 open files (ulimit -n)"
            ))
        })
    }

    fn make() -> Result<Self> {
        let low = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&low, GroupSnapshot::BYTES as u64)?;
        fcntl_add_seals(&low, SEALS)?;
        let max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(TABLE);
        let file = fcntl_dupfd_cloexec(&low, max.saturating_sub(LAST) as i32)?;
        fcntl_setfd(&file, FdFlags::empty())?;
        let setting = format!("group={}:{}", file.as_raw_fd(), fstat(&file)?.st_ino);
        Ok(Tree { file, setting })
    }

    /// Returns the figures that the processes have published.
    pub(crate) fn seen(&self) -> Option<GroupSnapshot> {
        read(&self.file)
    }
}

/// The shared file of another program, opened for reading.
#[derive(Debug)]
pub(crate) struct Found(OwnedFd);

impl Found {
    /// Returns the figures that the processes have published. Returns `None` if this is not a
    /// shared file of uzram.
    pub(crate) fn seen(&self) -> Option<GroupSnapshot> {
        read(&self.0)
    }
}

/// Opens the target of a link in /proc if the target is a shared file of uzram, else returns
/// `None`. Any file can have the name of a shared file, so its kind, size and seals are also
/// checked.
///
/// # Errors
/// Fails if the target may be a shared file of uzram, but can't be opened.
pub(crate) fn open(link: &Path) -> io::Result<Option<Found>> {
    let is_named = |to: &Path| to.as_os_str() == &*format!("/memfd:{NAME} (deleted)");
    if !read_link(link).is_ok_and(|to| is_named(&to)) {
        return Ok(None);
    }
    let place = match openat(CWD, link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        place => place?,
    };
    if !is_of_size(&place)? {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let again = format!("/proc/self/fd/{}", place.as_raw_fd());
    let file = openat(CWD, again, flags, Mode::empty())?;
    let is_it = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS));
    Ok(is_it.then_some(Found(file)))
}

fn is_of_size(file: impl AsFd) -> Result<bool> {
    let stat = fstat(file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(is_file && stat.st_size == GroupSnapshot::BYTES as i64)
}

/// Reads the figures that the processes have published. Returns `None` if the file is no shared
/// file of this version.
fn read(file: impl AsFd) -> Option<GroupSnapshot> {
    let mut copy = vec![0; GroupSnapshot::BYTES];
    let is_whole = is_of_size(&file).ok()? && pread(&file, &mut copy, 0) == Ok(copy.len());
    is_whole.then(|| GroupSnapshot::of(&copy)).flatten()
}
