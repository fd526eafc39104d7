//! Requests of the control socket: their text, and how a client sends one.

use crate::address::PATH_MAX;
use crate::steered::Refusal;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{Uid, geteuid};
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use zram::JobKind;

const JOBS: [JobKind; 4] =
    [JobKind::Save, JobKind::Restore, JobKind::Recompress, JobKind::WriteBack];

/// The byte that ends a request. A request without it is incomplete and is not carried out, as its
/// client may have died.
pub(super) const END: u8 = 0;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for the text of an attribute.
    Show(String),
    /// Sets an attribute to a value.
    Store(String, String),
    /// Asks for the server's state.
    Stat,
    /// Starts a job, with a path or words.
    Job(JobKind, String),
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No server listens at the path.
    #[error(
        "no server answers at '{path}': {source}; start one with 'uzram serve', or give its --control"
    )]
    Unreached {
        /// The path of the socket.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The path can't be a socket's name.
    #[error(
        "no server can be at '{0}': a socket's path has at most {PATH_MAX} bytes; give a shorter --control"
    )]
    TooLong(String),
    /// Another user's server listens at the path.
    #[error(
        "the server at '{path}' belongs to user {uid} and is not trusted; run this as that user, \
         or give --control of a server of your own"
    )]
    Stranger {
        /// The path of the socket.
        path: String,
        /// The user that owns the server.
        uid: u32,
    },
    /// The connection broke, or the answer is incomplete.
    #[error("the server's answer is incomplete: {0}; see the server's log")]
    Broken(io::Error),
    /// The server refused the request.
    #[error("{}", .0.message)]
    Refused(Refusal),
}

impl Request {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
        match line.split_once(' ') {
            Some(("show", name)) => Some(Request::Show(name.to_owned())),
            Some(("store", name)) => Some(Request::Store(name.to_owned(), rest.to_owned())),
            None if line == "stat" => Some(Request::Stat),
            None => {
                let kind = JOBS.into_iter().find(|kind| kind.to_string() == line)?;
                Some(Request::Job(kind, rest.to_owned()))
            }
            _ => None,
        }
    }

    /// Returns whether a server that is ending still carries the request out: it changes no data of
    /// the disk.
    pub(super) fn is_for_the_end(&self) -> bool {
        match self {
            Request::Show(_) | Request::Stat | Request::Job(JobKind::Save, _) => true,
            Request::Store(name, _) => ["save", "cancel_job"].contains(&name.as_str()),
            Request::Job(..) => false,
        }
    }

    /// Sends the request to the server at `path`, and writes its answer to `out`.
    ///
    /// # Errors
    /// [`AskError`]
    pub fn ask(&self, path: &Path, out: &mut impl Write) -> Result<(), AskError> {
        let unreached = |source| AskError::Unreached { path: path.display().to_string(), source };
        if path.as_os_str().len() > PATH_MAX {
            return Err(AskError::TooLong(path.display().to_string()));
        }
        let mut stream = UnixStream::connect(path).map_err(unreached)?;
        let peer = sockopt::socket_peercred(&stream).map_err(|errno| unreached(errno.into()))?;
        if !is_trusted(peer.uid) {
            let (path, uid) = (path.display().to_string(), peer.uid.as_raw());
            return Err(AskError::Stranger { path, uid });
        }
        let request = match self {
            Request::Show(name) => format!("show {name}\n"),
            Request::Store(name, value) => format!("store {name}\n{value}"),
            Request::Stat => "stat\n".to_owned(),
            Request::Job(kind, text) => format!("{kind}\n{text}"),
        };
        if request.as_bytes().contains(&END) {
            return Err(AskError::Refused(Refusal::new(
                Errno::INVAL,
                "a request can't contain a zero byte",
            )));
        }
        let request = [request.as_bytes(), &[END]].concat();
        stream.write_all(&request).map_err(AskError::Broken)?;
        stream.shutdown(Shutdown::Write).map_err(AskError::Broken)?;
        let mut answer = io::BufReader::new(stream);
        let mut line = String::new();
        io::BufRead::read_line(&mut answer, &mut line).map_err(AskError::Broken)?;
        match line.trim_end().split_once(' ') {
            None if line == "ok\n" => {
                io::copy(&mut answer, out).map(|_| ()).map_err(AskError::Broken)
            }
            Some(("error", told)) => Err(AskError::Refused(refusal(told))),
            _ => Err(AskError::Broken(io::ErrorKind::InvalidData.into())),
        }
    }
}

/// Returns whether the user at the other end is this user or root.
pub(super) fn is_trusted(uid: Uid) -> bool {
    uid.is_root() || uid == geteuid()
}

/// Parses the text behind `error`.
fn refusal(text: &str) -> Refusal {
    let (errno, message) = text.split_once(' ').unwrap_or(("", text));
    let errno = errno.parse().unwrap_or(Errno::IO.raw_os_error());
    Refusal { errno, message: message.to_owned() }
}
