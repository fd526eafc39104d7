//! Programs that run with more rights than the user that executes them, which no host can give.

use measure::process_status::process_status;
use rustix::fs::{Mode, StatVfsMountFlags, fstat, fstatvfs};
use rustix::io::Errno;
use rustix::process::{getgid, getuid};
use std::fs::File;

/// Returns what raises a program's rights, if anything does, for this user.
pub(super) fn by(file: &File) -> Option<&'static str> {
    let is_kept = process_status("NoNewPrivs:", 10) == Some(1)
        || fstatvfs(file).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID));
    let stat = fstat(file).ok().filter(|_| !is_kept)?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.contains(Mode::SUID) && stat.st_uid != getuid().as_raw() {
        return Some("it is setuid");
    }
    // Without the right to be executed by its group, the bit means something else.
    if mode.contains(Mode::SGID | Mode::XGRP) && stat.st_gid != getgid().as_raw() {
        return Some("it is setgid");
    }
    let capabilities = rustix::fs::fgetxattr(file, "security.capability", &mut [0_u8; 64]);
    let has_some = matches!(capabilities, Ok(1..) | Err(Errno::RANGE));
    (has_some && !getuid().is_root()).then_some("it has capabilities of its own (setcap)")
}
