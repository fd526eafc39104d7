//! Sends requests to a server, and detects whether the server runs, is stopped or is stuck.

use super::request::{Request, is_trusted};
use crate::address::PATH_MAX;
use crate::policy::ANSWERS_WITHIN;
use crate::steered::Refusal;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Pid;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No server listens at the path.
    #[error(
        "no server answers at '{path}': {source}; start one with 'uzram serve', or give the path \
         of its control socket with --control"
    )]
    Unreached {
        /// The path of the socket.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The path can't be the path of a socket.
    #[error(
        "'{0}' can't be a control socket: the path of a socket has at most {PATH_MAX} bytes; give \
         a shorter path with --control"
    )]
    TooLong(String),
    /// Another user's server listens at the path.
    #[error(
        "the server at '{path}' belongs to user {uid} and is not trusted; run this command as that \
         user, or give the control socket of your own server with --control"
    )]
    Stranger {
        /// The path of the socket.
        path: String,
        /// The user that owns the server.
        uid: u32,
    },
    /// The server is stopped or stuck.
    #[error(
        "the server at '{path}'{} does not answer within {} seconds: {}",
        of_process(*process),
        ANSWERS_WITHIN.as_secs(),
        remedy(*process, *is_stopped)
    )]
    Silent {
        /// The path of the socket.
        path: String,
        /// The ID of the process that listens at the socket, if known. A service manager can listen
        /// in place of the server.
        process: Option<i32>,
        /// Whether a signal or a debugger has stopped the listening process.
        is_stopped: bool,
    },
    /// The connection broke, or the answer is incomplete.
    #[error("the server's answer is incomplete: {0}; see the server's log")]
    Broken(io::Error),
    /// The server refused the request.
    #[error("{}", .0.message)]
    Refused(Refusal),
}

/// Sends `request` to the server at `path`, and writes the server's answer to `out`.
///
/// The server has to receive the request within [`ANSWERS_WITHIN`]. After each further
/// [`ANSWERS_WITHIN`] without an answer, the server has to answer `stat`. A server that answers
/// `stat` can take any time to answer the request.
///
/// # Errors
/// [`AskError`]
pub fn ask(request: &Request, path: &Path, out: &mut impl Write) -> Result<(), AskError> {
    let server = Server::connect(path)?;
    let bytes = request.bytes().map_err(AskError::Refused)?;
    let broken = |error| server.broken(error);
    (&server.stream).write_all(&bytes).map_err(broken)?;
    server.stream.shutdown(Shutdown::Write).map_err(broken)?;
    let may_wait = *request != Request::Stat;
    let mut answer = BufReader::new(Answer { server: &server, may_wait });
    let mut line = String::new();
    answer.read_line(&mut line).map_err(broken)?;
    match line.trim_end().split_once(' ') {
        None if line == "ok\n" => io::copy(&mut answer, out).map(|_| ()).map_err(broken),
        Some(("error", told)) => Err(AskError::Refused(refusal(told))),
        _ => Err(AskError::Broken(io::ErrorKind::InvalidData.into())),
    }
}

/// A connection to a server.
struct Server {
    stream: UnixStream,
    path: PathBuf,
    /// The ID of the listening process, if this PID namespace contains the process.
    process: Option<i32>,
}

impl Server {
    /// Connects to the server at `path` if the server can be trusted. No call on the connection
    /// blocks for longer than [`ANSWERS_WITHIN`].
    fn connect(path: &Path) -> Result<Self, AskError> {
        let named = path.display().to_string();
        let unreached = |errno: Errno| {
            let (path, source) = (named.clone(), errno.into());
            AskError::Unreached { path, source }
        };
        if path.as_os_str().len() > PATH_MAX {
            return Err(AskError::TooLong(named));
        }
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(unreached)?;
        for timeout in [Timeout::Send, Timeout::Recv] {
            let within = Some(ANSWERS_WITHIN);
            sockopt::set_socket_timeout(&socket, timeout, within).map_err(unreached)?;
        }
        let address = SocketAddrUnix::new(path).map_err(unreached)?;
        let connected = retry_on_intr(|| net::connect(&socket, &address));
        connected.map_err(|errno| match errno {
            // The backlog is full of connections that the server has not accepted.
            Errno::AGAIN => {
                AskError::Silent { path: named.clone(), process: None, is_stopped: false }
            }
            errno => unreached(errno),
        })?;
        let peer = sockopt::socket_peercred(&socket).map_err(unreached)?;
        if !is_trusted(peer.uid) {
            return Err(AskError::Stranger { path: named, uid: peer.uid.as_raw() });
        }
        let process = Some(Pid::as_raw(Some(peer.pid))).filter(|process| *process > 0);
        Ok(Server { stream: socket.into(), path: path.to_owned(), process })
    }

    /// Returns whether the listening process is stopped.
    fn is_stopped(&self) -> bool {
        let Some(process) = self.process else { return false };
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The process's name is in parentheses, and may itself contain parentheses.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('T' | 't'))
    }

    /// Returns whether the server answers `stat` on another connection.
    fn is_alive(&self) -> bool {
        let asked = ask(&Request::Stat, &self.path, &mut io::sink());
        // After any other error, the server is not stuck. Either the server runs, or it has ended.
        !matches!(asked, Err(AskError::Silent { .. }))
    }

    /// Returns the error for a failed call on the connection.
    fn broken(&self, error: io::Error) -> AskError {
        match error.kind() {
            io::ErrorKind::WouldBlock => AskError::Silent {
                path: self.path.display().to_string(),
                process: self.process,
                is_stopped: self.is_stopped(),
            },
            _ => AskError::Broken(error),
        }
    }
}

/// The answer of a server to a request.
struct Answer<'s> {
    server: &'s Server,
    /// Whether the answer may take longer than [`ANSWERS_WITHIN`].
    may_wait: bool,
}

impl Read for Answer<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = (&self.server.stream).read(buf);
            if !read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                return read;
            }
            if !self.may_wait || self.server.is_stopped() || !self.server.is_alive() {
                return read;
            }
        }
    }
}

/// Returns a description of a server's process for a message.
fn of_process(process: Option<i32>) -> String {
    process.map_or_else(String::new, |process| format!(" (process {process})"))
}

/// Returns the reason why a server does not answer, and a remedy for the user.
fn remedy(process: Option<i32>, is_stopped: bool) -> String {
    match process.filter(|_| is_stopped) {
        Some(process) => format!("it is stopped; continue it with 'kill -CONT {process}'"),
        None => "it is stopped or stuck; if 'ps' shows the state T for it, continue it with 'kill \
                 -CONT PID', or else see its log"
            .to_owned(),
    }
}

/// Parses the text that follows the word `error` in an answer.
fn refusal(text: &str) -> Refusal {
    let (errno, message) = text.split_once(' ').unwrap_or(("", text));
    let errno = errno.parse().unwrap_or(Errno::IO.raw_os_error());
    Refusal { errno, message: message.to_owned() }
}
