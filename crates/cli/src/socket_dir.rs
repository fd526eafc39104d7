//! The default directory of servers' sockets.

use crate::error::Error;
use std::fmt::Display;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

pub(crate) const NBD: &str = "nbd.sock";
pub(crate) const CONTROL: &str = "control.sock";

/// Returns the path of the directory of this user's sockets.
pub(crate) fn directory() -> PathBuf {
    let uid = rustix::process::getuid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => Path::new(&dir).join("uzram"),
        None if uid.is_root() => PathBuf::from("/run/uzram"),
        None => PathBuf::from(format!("/tmp/uzram-{}", uid.as_raw())),
    }
}

/// Returns the directory of this user's sockets, and creates it if necessary. Fails if another user
/// could have created the directory.
pub(crate) fn create() -> Result<PathBuf, Error> {
    let dir = directory();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(|why| unfit(&dir, why))?;
    check(&dir)?;
    Ok(dir)
}

/// If `path` lies in the default directory, checks that only this user can write to the directory.
/// Another user with write access could have created the socket.
pub(crate) fn check_default(path: &Path) -> Result<(), Error> {
    let dir = directory();
    if path.parent() == Some(&dir) && std::fs::symlink_metadata(&dir).is_ok() {
        check(&dir)?;
    }
    Ok(())
}

/// Checks that no other user can put files into a directory.
pub(crate) fn check(dir: &Path) -> Result<(), Error> {
    let found = std::fs::symlink_metadata(dir).map_err(|why| unfit(dir, why))?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if is_ours && found.mode() & (libc::S_IWGRP | libc::S_IWOTH) == 0 {
        return Ok(());
    }
    let why = "it is not a directory that belongs to this user and that no one else can write to";
    Err(unfit(dir, why))
}

fn unfit(dir: &Path, why: impl Display) -> Error {
    let remedy = "set XDG_RUNTIME_DIR, or give --nbd and --control";
    Error::of_file(dir, "can't hold a server's sockets", why, remedy)
}
