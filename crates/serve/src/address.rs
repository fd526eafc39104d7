//! Addresses at which clients find a server.

mod socket_file;

pub(crate) use socket_file::SocketFile;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketType, getsockname, sockopt};
use socket_file::listen_at;
use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// NBD's registered port.
const PORT: u16 = 10809;

/// The maximum length of a socket's path in bytes. Clients can't connect to a longer path.
pub(crate) const PATH_MAX: usize = 107;

/// The address at which clients find a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A TCP port at an address of this machine. NBD has no authentication, so every program that
    /// reaches the port can use the disk.
    Tcp {
        /// The host's name, or its numeric address.
        host: String,
        /// The port, or 0 for a port that the system chooses.
        port: u16,
    },
}

/// The reason why a server can't listen at an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Another server answers at the path.
    #[error("'{0}' is in use by another server; stop that one, or give another path")]
    Live(String),
    /// The file at the path is not a socket.
    #[error("'{0}' exists and is not a socket; remove it, or give another path")]
    NoSocket(String),
    /// The path can't be the path of a socket.
    #[error(
        "'{0}' can't be a socket: its path may have at most {PATH_MAX} bytes; give a shorter one"
    )]
    TooLong(String),
    /// The system refuses to listen at the address.
    #[error("can't listen on '{address}': {errno}; give another address")]
    Refused {
        /// The requested address.
        address: String,
        /// The system's reason.
        errno: std::io::Error,
    },
    /// The service manager passed a socket to which clients can't connect.
    #[error(
        "a socket passed by the service manager can't be served: it is {0}; use ListenStream= with \
         a path or an address, and Accept=no"
    )]
    Unfit(&'static str),
}

impl Address {
    /// Parses `unix:PATH`, `tcp:HOST:PORT`, `tcp:PORT` or `tcp`. Without a host, the address is
    /// loopback.
    ///
    /// # Errors
    /// Returns a message with the accepted forms if `text` has none of these forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected unix:PATH, tcp:HOST:PORT, tcp:PORT or tcp";
        let loopback = || Ipv4Addr::LOCALHOST.to_string();
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Address::Unix(path.into())),
            None if text == "tcp" => Ok(Address::Tcp { host: loopback(), port: PORT }),
            Some(("tcp", rest)) => {
                let (host, port) = match rest.rsplit_once(':') {
                    Some((host, port)) => (host.trim_matches(['[', ']']).to_owned(), port),
                    None => (loopback(), rest),
                };
                let port = port.parse().map_err(|_| EXPECTED)?;
                if host.is_empty() {
                    Err(EXPECTED.to_owned())
                } else {
                    Ok(Address::Tcp { host, port })
                }
            }
            _ => Err(EXPECTED.to_owned()),
        }
    }

    /// Listens at this address.
    ///
    /// # Errors
    /// [`AddressError`]
    pub fn listen(&self) -> Result<Listening, AddressError> {
        match self {
            Address::Unix(path) => listen_at(path),
            Address::Tcp { host, port } => {
                let refused = |errno| AddressError::Refused { address: self.to_string(), errno };
                let mut found = (host.as_str(), *port).to_socket_addrs().map_err(refused)?;
                let none = || refused(Errno::ADDRNOTAVAIL.into());
                let listener =
                    TcpListener::bind(found.next().ok_or_else(none)?).map_err(refused)?;
                let at = listener.local_addr().map_err(refused)?;
                Ok(Listening { socket: listener.into(), address: at.into(), file: None })
            }
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Self {
        Address::Tcp { host: at.ip().to_string(), port: at.port() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

impl Address {
    /// Returns whether only this machine can reach the address.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp { host, .. } => {
                host.parse().is_ok_and(|host: IpAddr| host.to_canonical().is_loopback())
            }
        }
    }
}

/// A socket that clients can connect to. A drop of the `Listening` removes the socket's file.
#[derive(Debug)]
pub struct Listening {
    pub(crate) socket: OwnedFd,
    address: Address,
    file: Option<SocketFile>,
}

impl Listening {
    /// Takes a socket that the service manager has passed to this process. The socket's file
    /// belongs to the service manager, and remains when the result is dropped.
    ///
    /// # Errors
    /// Returns [`AddressError::Unfit`] if `socket` is not a listening stream socket with a path or
    /// a port.
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

    /// Returns the address at which clients find the socket.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the socket and its file.
    pub(crate) fn into_parts(self) -> (OwnedFd, Option<SocketFile>) {
        (self.socket, self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        let tcp = |host: &str, port| Address::Tcp { host: host.to_owned(), port };
        for (text, address, printed, is_local) in [
            ("unix:/a:b", Address::Unix("/a:b".into()), "unix:/a:b", true),
            ("tcp", tcp("127.0.0.1", PORT), "tcp:127.0.0.1:10809", true),
            ("tcp:7", tcp("127.0.0.1", 7), "tcp:127.0.0.1:7", true),
            ("tcp:[::1]:7", tcp("::1", 7), "tcp:[::1]:7", true),
            (
                "tcp:[::ffff:127.1.1.1]:7",
                tcp("::ffff:127.1.1.1", 7),
                "tcp:[::ffff:127.1.1.1]:7",
                true,
            ),
            ("tcp:0.0.0.0:7", tcp("0.0.0.0", 7), "tcp:0.0.0.0:7", false),
            ("tcp:[::]:7", tcp("::", 7), "tcp:[::]:7", false),
            ("tcp:example.org:7", tcp("example.org", 7), "tcp:example.org:7", false),
        ] {
            let parsed = Address::parse(text).unwrap();
            assert_eq!(parsed, address, "{text}");
            assert_eq!((parsed.to_string().as_str(), parsed.is_local()), (printed, is_local));
        }
        for text in ["", "unix:", "unix", "tcp:", "tcp::7", "tcp:a:b", "tcp:a:65536", "udp:7", "/a"]
        {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
