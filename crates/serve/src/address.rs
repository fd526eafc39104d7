//! Where a server is found, and how it comes there: a socket left behind is replaced, that of a
//! live server never.

use rustix::fd::OwnedFd;
use rustix::fs::{self, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The port that is NBD's own.
const PORT: u16 = 10809;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Bytes of a socket's path, at most: clients can't name longer ones.
pub(crate) const PATH_MAX: usize = 107;

/// How often it is begun again where others start at the same path.
const TRIES: usize = 100;

/// Where a server is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A port of one of this machine's addresses. NBD has no authentication: every program that
    /// reaches the port has the disk.
    Tcp {
        /// Name or number of the address.
        host: String,
        /// 0 lets the system choose.
        port: u16,
    },
}

/// Why a server can't be found there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// A server answers there.
    #[error("'{0}' is in use by another server; stop that one, or give another path")]
    Live(String),
    /// There is something else.
    #[error("'{0}' exists and is not a socket; remove it, or give another path")]
    NoSocket(String),
    /// No socket can have such a name.
    #[error(
        "'{0}' can't be a socket: its path may have at most {PATH_MAX} bytes; give a shorter one"
    )]
    TooLong(String),
    /// The system refuses.
    #[error("can't listen on '{address}': {errno}; give another address")]
    Refused {
        /// What was asked for.
        address: String,
        /// Why not.
        errno: std::io::Error,
    },
}

impl Address {
    /// Reads `unix:PATH`, `tcp:HOST:PORT`, `tcp:PORT` or `tcp`, which is loopback, as it is without
    /// a host.
    ///
    /// # Errors
    /// Anything else, with what was expected.
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

    /// Listens there.
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
    /// Returns whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp { host, .. } => host.parse().is_ok_and(|host: IpAddr| host.is_loopback()),
        }
    }
}

/// A socket that clients can connect to; with it its file goes.
#[derive(Debug)]
pub struct Listening {
    pub(crate) socket: OwnedFd,
    address: Address,
    file: Option<SocketFile>,
}

impl Listening {
    /// Returns the address at which clients find it.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the socket, and its file.
    pub(crate) fn into_parts(self) -> (OwnedFd, Option<SocketFile>) {
        (self.socket, self.file)
    }
}

/// A socket's file, removed with this unless another took its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: Id,
}

/// Device and number of a file.
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

/// Listens at a path that only this user can connect to. The socket is made under another name and
/// appears when it is ready: where there is nothing, or in exchange for one that is stale. So there
/// is no lock that others could hold.
fn listen_at(path: &Path) -> Result<Listening, AddressError> {
    let name = || path.display().to_string();
    let refused = |errno: Errno| AddressError::Refused { address: name(), errno: errno.into() };
    if path.as_os_str().len() > PATH_MAX {
        return Err(AddressError::TooLong(name()));
    }
    let socket = socket().map_err(refused)?;
    let made = HiddenSocket::new(&socket, path).map_err(refused)?;
    for _ in 0..TRIES {
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

/// A socket that listens, under a name that no one knows.
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
        // A directory has a short name, too: that of its descriptor.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = fs::open(parent, flags, Mode::empty())?;
        let short = || format!("/proc/self/fd/{}/{name}", dir.as_raw_fd());
        let address = SocketAddrUnix::new(&path).or_else(|_| SocketAddrUnix::new(short()))?;
        // The file gets its mode from the socket, so it is never set on another's file of that
        // name.
        fs::fchmod(socket, Mode::RUSR | Mode::WUSR)?;
        net::bind(socket, &address)?;
        let made = net::listen(socket, BACKLOG).and_then(|()| id(&path).ok_or(Errno::NOENT));
        match made {
            Ok(id) => Ok(HiddenSocket { path, id }),
            Err(errno) => {
                let _ = std::fs::remove_file(&path);
                Err(errno)
            }
        }
    }

    /// Takes a place where there is nothing, and returns whether it did.
    fn publish(&self, path: &Path) -> rustix::io::Result<bool> {
        match fs::renameat_with(CWD, &self.path, CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            // The file system can't.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(&self.path, path).map(|()| true),
            Err(errno) => Err(errno),
        }
    }

    /// Takes the place of the socket `stale`, and returns whether it did, as another may have done
    /// so before.
    fn replace_stale(&self, stale: Id, path: &Path) -> rustix::io::Result<bool> {
        let exchange = || fs::renameat_with(CWD, &self.path, CWD, path, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) if id(&self.path) == Some(stale) => {
                let _ = std::fs::remove_file(&self.path);
                Ok(true)
            }
            // A live one: back with it.
            Ok(()) => exchange().map(|()| false),
            Err(Errno::NOENT) => Ok(false),
            // The file system can't.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(&self.path, path).map(|()| true),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for HiddenSocket {
    fn drop(&mut self) {
        // In its place it has another name.
        if id(&self.path) == Some(self.id) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// What is at a path.
enum Probed {
    Nothing,
    /// A socket that no one listens on any more.
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
    // A server with a full backlog is alive, and not waited for.
    rustix::io::ioctl_fionbio(&socket, true)?;
    match net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(Probed::Live),
        Err(Errno::CONNREFUSED) => Ok(Probed::Stale(id)),
        // It is gone by now.
        Err(Errno::NOENT) => Ok(Probed::Nothing),
        Err(errno) => Err(errno),
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
            ("tcp:0.0.0.0:7", tcp("0.0.0.0", 7), "tcp:0.0.0.0:7", false),
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
