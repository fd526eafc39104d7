//! The file by which the processes of a program keep one limit together.
//!
//! It has no name, and each program inherits its descriptor. What lies in it is the library's
//! (`zmem::Tree`); here it is only made, as zeros.

use crate::error::{Error, failed};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::io::{FdFlags, Result, fcntl_dupfd_cloexec, fcntl_setfd, pread};
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Room for 508 processes.
const BYTES: u64 = 16 << 10;
/// Where the library writes the most that was held: its second word.
const PEAK_AT: u64 = 8;
/// The descriptor is one of the last below this number, or below the process's limit: calls that
/// open files give out the lowest that is free.
const TABLE: u64 = 1024;
const LAST: u64 = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Tree {
    file: OwnedFd,
    /// What the library is told of it.
    pub(super) setting: String,
}

impl Tree {
    pub(super) fn new() -> std::result::Result<Self, Error> {
        Tree::make().map_err(|error| {
            failed(format!(
                "memory that processes share can't be had: {error}; allow memfd_create, and more \
                 open files (ulimit -n)"
            ))
        })
    }

    fn make() -> Result<Self> {
        let low = memfd_create("uzram-run", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&low, BYTES)?;
        // So no process finds it shorter than it has mapped it.
        fcntl_add_seals(&low, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(TABLE);
        let file = fcntl_dupfd_cloexec(&low, max.saturating_sub(LAST) as i32)?;
        fcntl_setfd(&file, FdFlags::empty())?;
        let setting = format!("tree={}:{}", file.as_raw_fd(), fstat(&file)?.st_ino);
        Ok(Tree { file, setting })
    }

    /// Returns the most that the processes held together.
    pub(super) fn held_max(&self) -> u64 {
        let mut word = [0; 8];
        let read = pread(&self.file, &mut word, PEAK_AT);
        read.map_or(0, |_| u64::from_ne_bytes(word))
    }
}
