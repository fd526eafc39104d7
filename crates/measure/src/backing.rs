//! The file that cold data are written back to.

use crate::error::Error;
use crate::text::escaped;
use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use zram::BackingFile;

/// What a backing file has beyond the input, for what does not fill a block.
const BACKING_SPARE: u64 = 1 << 20;

/// Opens a backing store for a device of `bytes` bytes: a block device, or a new file. The file
/// loses its name at once, so that its space comes back whatever ends this process.
///
/// # Errors
/// There can be no such file, or the device can't be used.
pub fn backing_store(path: &Path, bytes: u64) -> Result<Arc<BackingFile>, Error> {
    let failed = |why: io::Error| {
        let remedy = "name a file that does not exist yet, or a block device";
        match why.kind() {
            // The second comes from the lock, which another server holds.
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

/// The error that what is to be done with a backing store can't be.
pub(crate) fn backing_failed(path: &Path, what: &str, why: impl Display, remedy: &str) -> Error {
    Error::Failed(format!("--backing '{}'{what}: {why}; {remedy}", escaped(path)))
}
