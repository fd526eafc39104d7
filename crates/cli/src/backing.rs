//! The backing store of a device.

use crate::error::Error;
use crate::policy::BACKING_SPARE;
use crate::text::escaped;
use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use zram::BackingFile;

/// Opens a block device, or creates a file, as the backing store of a device of `bytes` bytes. The
/// file is unlinked at once, so the system frees its space when this process ends.
///
/// # Errors
/// Fails if the file can't be created, or the device can't be used.
pub(crate) fn backing_store(path: &Path, bytes: u64) -> Result<Arc<BackingFile>, Error> {
    let failed = |why: io::Error| {
        let remedy = "name a file that does not exist yet, or a block device";
        match why.kind() {
            // `WouldBlock` means that another server holds the lock of the block device.
            ErrorKind::ResourceBusy | ErrorKind::WouldBlock => backing_failed(
                path,
                " is in use",
                "it is mounted, swapped to, or another program's",
                "end that ('umount', 'swapoff'), or name another device, or a file that does not \
                 exist yet",
            ),
            _ => backing_failed(path, " can't be used", why, remedy),
        }
    };
    let is_device = fs::metadata(path).is_ok_and(|of| of.file_type().is_block_device());
    let most = bytes.saturating_add(bytes / 8).saturating_add(BACKING_SPARE);
    let store = BackingFile::create(path, most).map_err(failed)?;
    if !is_device {
        fs::remove_file(path).map_err(failed)?;
    }
    Ok(Arc::new(store))
}

pub(crate) fn backing_failed(path: &Path, what: &str, why: impl Display, remedy: &str) -> Error {
    Error::Failed(format!("--backing '{}'{what}: {why}; {remedy}", escaped(path)))
}
