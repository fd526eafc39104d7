//! Sockets in the file system. A stale socket is replaced, but the socket of a running server is
//! never replaced.

use super::{Address, AddressError, Listening, PATH_MAX};
use crate::policy::{SOCKET_BACKLOG, SOCKET_TRIES};
use rustix::fd::OwnedFd;
use rustix::fs::{self, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A socket's file. A drop of the `SocketFile` removes the file if the path still refers to it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: Id,
}

/// The device and inode number of a file.
type Id = (u64, u64);

fn id(path: &Path) -> Option<Id> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if id(&self.path) == Some(self.id) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens at a path that only this user can connect to. The socket is created under a random name,
/// and listens there. Then the socket is moved to the path if no file exists there, or exchanged
/// for a stale socket. No lock is used, because another user could hold the lock.
pub(super) fn listen_at(path: &Path) -> Result<Listening, AddressError> {
    let name = || path.display().to_string();
    let refused = |errno: Errno| AddressError::Refused { address: name(), errno: errno.into() };
    if path.as_os_str().len() > PATH_MAX {
        return Err(AddressError::TooLong(name()));
    }
    let socket = socket().map_err(refused)?;
    let made = HiddenSocket::new(&socket, path).map_err(refused)?;
    for _ in 0..SOCKET_TRIES {
        let is_there = match probe(path).map_err(refused)? {
            Probed::Nothing => made.publish(path),
            Probed::Stale(stale) => made.replace_stale(stale, path),
            Probed::Live => return Err(AddressError::Live(name())),
            Probed::NoSocket => return Err(AddressError::NoSocket(name())),
        };
        if is_there.map_err(refused)? {
            let file = SocketFile { path: path.to_owned(), id: made.id };
            return Ok(Listening {
                socket,
                address: Address::Unix(path.to_owned()),
                file: Some(file),
            });
        }
    }
    Err(AddressError::Live(name()))
}

/// A listening socket with a random name, which no other process can guess.
struct HiddenSocket {
    path: PathBuf,
    id: Id,
}

impl HiddenSocket {
    fn new(socket: &OwnedFd, place: &Path) -> rustix::io::Result<Self> {
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let name = format!(".{:016x}", RandomState::new().build_hasher().finish());
        let path = parent.join(&name);
        // The path through the directory's descriptor is short enough for a socket, even if the
        // path of the directory is too long.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = fs::open(parent, flags, Mode::empty())?;
        let short = || format!("/proc/self/fd/{}/{name}", dir.as_raw_fd());
        let address = SocketAddrUnix::new(&path).or_else(|_| SocketAddrUnix::new(short()))?;
        // The file inherits this mode from the socket. A chmod by name could change another user's
        // file.
        fs::fchmod(socket, Mode::RUSR | Mode::WUSR)?;
        net::bind(socket, &address)?;
        let made = net::listen(socket, SOCKET_BACKLOG).and_then(|()| id(&path).ok_or(Errno::NOENT));
        match made {
            Ok(id) => Ok(HiddenSocket { path, id }),
            Err(errno) => {
                let _ = std::fs::remove_file(&path);
                Err(errno)
            }
        }
    }

    /// Moves the socket to a path where nothing exists. Returns whether the socket was moved.
    fn publish(&self, path: &Path) -> rustix::io::Result<bool> {
        match fs::renameat_with(CWD, &self.path, CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            // The file system does not support RENAME_NOREPLACE.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(&self.path, path).map(|()| true),
            Err(errno) => Err(errno),
        }
    }

    /// Replaces the socket `stale`. Returns false if another server has replaced or removed `stale`
    /// first.
    fn replace_stale(&self, stale: Id, path: &Path) -> rustix::io::Result<bool> {
        let exchange = || fs::renameat_with(CWD, &self.path, CWD, path, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) if id(&self.path) == Some(stale) => {
                let _ = std::fs::remove_file(&self.path);
                Ok(true)
            }
            // The exchanged file was the socket of a running server, so the exchange is undone.
            Ok(()) => exchange().map(|()| false),
            Err(Errno::NOENT) => Ok(false),
            // The file system does not support RENAME_EXCHANGE.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(&self.path, path).map(|()| true),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for HiddenSocket {
    fn drop(&mut self) {
        // If the file was moved to its final path, no file exists under the hidden name.
        if id(&self.path) == Some(self.id) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// The kind of file at a path.
enum Probed {
    Nothing,
    /// A socket on which no process listens any more.
    Stale(Id),
    Live,
    NoSocket,
}

fn probe(path: &Path) -> rustix::io::Result<Probed> {
    use std::os::unix::fs::FileTypeExt;
    let id = match std::fs::symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => (file.dev(), file.ino()),
        Ok(_) => return Ok(Probed::NoSocket),
        Err(error) => {
            return match Errno::from_io_error(&error) {
                Some(Errno::NOENT) => Ok(Probed::Nothing),
                errno => Err(errno.unwrap_or(Errno::IO)),
            };
        }
    };
    let socket = socket()?;
    // A server with a full backlog counts as running. `connect` must not wait until the backlog has
    // space.
    rustix::io::ioctl_fionbio(&socket, true)?;
    match net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(Probed::Live),
        Err(Errno::CONNREFUSED) => Ok(Probed::Stale(id)),
        // The file was removed after its attributes were read.
        Err(Errno::NOENT) => Ok(Probed::Nothing),
        Err(errno) => Err(errno),
    }
}
