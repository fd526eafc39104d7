//! Sockets that a service manager listens on, and passes to this process.

use super::{Address, AddressError, Listening};
use rustix::fd::OwnedFd;
use rustix::net::{SocketAddrUnix, SocketType, getsockname, sockopt};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

impl Listening {
    /// Takes a socket that the service manager listens on and has passed to this process. The
    /// socket's file belongs to the manager, and remains when the result is dropped.
    ///
    /// # Errors
    /// [`AddressError::Unfit`]: `socket` is not a listening stream socket with a path or a port.
    pub fn passed(socket: OwnedFd) -> Result<Self, AddressError> {
        match (sockopt::socket_acceptconn(&socket), sockopt::socket_type(&socket)) {
            (Ok(true), Ok(SocketType::STREAM)) => {}
            (Ok(_), _) => return Err(AddressError::Unfit("a connection, or not a stream")),
            (Err(_), _) => return Err(AddressError::Unfit("not a socket")),
        }
        let at = getsockname(&socket).map_err(|_| AddressError::Unfit("without an address"))?;
        let unix = SocketAddrUnix::try_from(at.clone()).ok();
        let unix = unix.and_then(|unix| Some(PathBuf::from(OsStr::from_bytes(unix.path_bytes()?))));
        let address = match (unix, SocketAddr::try_from(at)) {
            (Some(path), _) => Address::Unix(path),
            (None, Ok(at)) => at.into(),
            (None, Err(_)) => return Err(AddressError::Unfit("at neither a path nor a port")),
        };
        Ok(Listening { socket, address, file: None })
    }
}
