//! The backing file of a device.
//!
//! # Safety
//! C callers keep the rules for strings in [`border`].
#![allow(unsafe_code)]

use crate::answer::{EBUSY, EIO, Failure};
use crate::border;
use crate::structs::DeviceOptions;
use std::io;
use std::path::Path;
use uzram::BackingFile;

/// Opens the backing file, or creates it with `bytes` bytes if `bytes` is not 0.
pub(crate) fn opened(path: &Path, bytes: u64) -> Result<BackingFile, Failure> {
    if i64::try_from(bytes).is_err() {
        return Err(Failure::invalid(format!(
            "no file has {bytes} bytes; set backing_bytes to less"
        )));
    }
    let opened = if bytes > 0 { BackingFile::create(path, bytes) } else { BackingFile::open(path) };
    opened.map_err(|error: io::Error| {
        let errno = error.raw_os_error().unwrap_or(EIO);
        let (errno, why) = match error.kind() {
            io::ErrorKind::WouldBlock => (EBUSY, "another device has it".to_owned()),
            _ => (errno, error.to_string()),
        };
        let remedy = match (error.kind(), bytes) {
            (io::ErrorKind::AlreadyExists, _) => "set backing_bytes to 0 to use that file",
            (io::ErrorKind::NotFound, 0) => "set backing_bytes to have it made",
            _ => "name a file, or a block device, that is this device's alone",
        };
        let path = path.to_string_lossy();
        let path = path.escape_debug();
        Failure::new(errno, format!("the backing file '{path}' can't be used: {why}; {remedy}"))
    })
}

/// Removes a new backing file whose device could not be created.
///
/// # Safety
/// The C caller keeps the rules for strings in [`border`].
pub(crate) unsafe fn remove_made(options: &DeviceOptions) {
    if options.backing_path.is_null() || options.backing_bytes == 0 {
        return;
    }
    // SAFETY: the caller guarantees the rules for strings.
    if let Ok(path) = unsafe { border::path(options.backing_path) }
        && path.symlink_metadata().is_ok_and(|of| of.is_file())
    {
        drop(std::fs::remove_file(path));
    }
}
