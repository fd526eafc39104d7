//! Reads a configuration file, up to a maximum size and within a maximum time.

use crate::error::Error;
use crate::policy::{CONFIG_BYTES_MAX, CONFIG_WITHIN};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

/// Reads the file at `path`.
///
/// # Errors
/// Fails if `path` is neither a regular file nor a pipe, or if the file can't be read, is too long,
/// or is not text.
pub(super) fn read(path: &Path) -> Result<String, Error> {
    let bytes = bytes(path).map_err(|why| {
        let remedy = "give --config a file that this user can read";
        Error::of_file(path, "can't be read", why, remedy)
    })?;
    let unfit = |why: &str| Error::of_file(path, "is no configuration file", why, "correct it");
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(unfit("it has more than 1 MiB"));
    }
    if let Some(at) = bytes.iter().position(|&byte| byte == 0) {
        let line = bytes[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        return Err(unfit(&format!("line {line} has a zero byte")));
    }
    let text = String::from_utf8(bytes).map_err(|_| unfit("it is not valid UTF-8"))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Reads at most `CONFIG_BYTES_MAX` + 1 bytes of the file.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    // The open must not block, even on a terminal or on a pipe without a writer.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let other = || io::Error::other("it is neither a regular file nor a pipe");
    // Opening a socket fails with ENXIO.
    let file =
        file.map_err(|why| if why.raw_os_error() == Some(libc::ENXIO) { other() } else { why })?;
    let kind = file.metadata()?.file_type();
    let mut bytes = Vec::new();
    if kind.is_file() {
        file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    } else if kind.is_fifo() {
        read_pipe(file, &mut bytes)?;
        if bytes.is_empty() {
            return Err(io::Error::other("it is a pipe that no program writes to"));
        }
    } else {
        return Err(other());
    }
    Ok(bytes)
}

fn read_pipe(pipe: File, bytes: &mut Vec<u8>) -> io::Result<()> {
    let until = Instant::now() + CONFIG_WITHIN;
    let mut some = pipe.try_clone()?.take(CONFIG_BYTES_MAX + 1);
    loop {
        // `bytes` keeps the bytes that were read before an error.
        match some.read_to_end(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read.map(drop),
        }
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&left)) {
            Ok(0) => {
                let why =
                    format!("it is a pipe that does not end within {} s", CONFIG_WITHIN.as_secs());
                return Err(io::Error::other(why));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
