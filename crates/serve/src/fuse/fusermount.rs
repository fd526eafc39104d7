//! `fusermount3`, which mounts and unmounts for users without the privilege to mount.

use crate::policy::FUSERMOUNT_WITHIN;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{FdFlags, IoSliceMut, fcntl_setfd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = "fusermount3";

/// The environment variable with the number of the descriptor over which `fusermount3` sends the
/// connection.
const VARIABLE: &str = "_FUSE_COMMFD";

/// Makes `fusermount3` mount at a directory, and returns the connection.
pub(super) fn mount(dir: &Path, name: &str) -> io::Result<OwnedFd> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&ours, Timeout::Recv, Some(FUSERMOUNT_WITHIN))?;
    // `fusermount3` inherits this descriptor.
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let options = format!("fsname={name},subtype={name},default_permissions,nosuid,nodev");
    let mut command = Command::new(PROGRAM);
    command.args(["-o", &options, "--"]).arg(dir);
    command.env(VARIABLE, theirs.as_raw_fd().to_string());
    let program = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut program = program.spawn()?;
    drop(theirs);
    let connection = received(&ours);
    drop(ours);
    match connection {
        Ok(Some(connection)) => {
            program.wait()?;
            Ok(connection)
        }
        failed => {
            let _ = program.kill();
            let said = program.wait_with_output()?.stderr;
            failed.and(Err(io::Error::other(String::from_utf8_lossy(&said).trim().to_owned())))
        }
    }
}

/// Returns the descriptor that `fusermount3` sent, if any.
fn received(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sent) => sent.next(),
        _ => None,
    }))
}

/// Makes `fusermount3` unmount a directory, even if programs use it.
pub(super) fn unmount(dir: &Path) -> io::Result<()> {
    let mut command = Command::new(PROGRAM);
    let output = command.args(["-u", "-z", "--"]).arg(dir).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
