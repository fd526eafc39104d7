//! The rights of a program that this user executes.

use executable::{Denial, FileRights, Rights};
use rustix::fs::{StatVfsMountFlags, fgetxattr, fstat, fstatvfs};
use rustix::io::{Errno, Result};
use rustix::process::{getegid, geteuid};
use rustix::thread::no_new_privs;
use std::fs::File;

/// Returns the rights that the kernel gives to the program in a file.
///
/// # Errors
/// Fails with the error of the system.
pub(crate) fn rights(file: &File) -> Result<Rights> {
    let stat = fstat(file)?;
    let capabilities = fgetxattr(file, "security.capability", &mut [0_u8; 64]);
    let has_capabilities = matches!(capabilities, Ok(1..) | Err(Errno::RANGE));
    let rights =
        FileRights { mode: stat.st_mode, owners: [stat.st_uid, stat.st_gid], has_capabilities };
    let denial = || Denial {
        no_new_privs: no_new_privs().unwrap_or(false),
        nosuid: fstatvfs(file).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID)),
    };
    Ok(rights.of_program([geteuid().as_raw(), getegid().as_raw()], denial))
}
