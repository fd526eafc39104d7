//! Where a server's sockets are, if nothing else is asked for.

use crate::error::Error;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

pub(crate) const NBD: &str = "nbd.sock";
pub(crate) const CONTROL: &str = "control.sock";

/// The directory of this user's sockets.
pub(crate) fn directory() -> PathBuf {
    let uid = rustix::process::getuid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => Path::new(&dir).join("uzram"),
        None if uid.is_root() => PathBuf::from("/run/uzram"),
        None => PathBuf::from(format!("/tmp/uzram-{}", uid.as_raw())),
    }
}

/// The same, made if it is not there. Where anyone may make directories, someone else's is not used.
pub(crate) fn made_directory() -> Result<PathBuf, Error> {
    let dir = directory();
    let refused = |source| Error::RuntimeDir { path: dir.clone(), source };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(refused)?;
    let found = std::fs::symlink_metadata(&dir).map_err(refused)?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::getuid().as_raw();
    if is_ours { Ok(dir) } else { Err(refused(std::io::ErrorKind::PermissionDenied.into())) }
}
