//! Requests of the control socket, and their encoding as text.

use crate::steered::Refusal;
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};
use zram::JobKind;

const JOBS: [JobKind; 4] =
    [JobKind::Save, JobKind::Restore, JobKind::Recompress, JobKind::WriteBack];

/// The byte that ends a request. A request without this byte is not carried out, because its client
/// may have died before it sent the whole request.
pub(super) const END: u8 = 0;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests the text of an attribute.
    Show(String),
    /// Sets an attribute to a value.
    Store(String, String),
    /// Requests the server's state.
    Stat,
    /// Starts a job. The text is the path of a file or the words of an attribute.
    Job(JobKind, String),
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

    /// Returns whether a server that is ending carries the request out, because the request only
    /// reads, saves the disk, or cancels a job.
    pub(super) fn is_for_the_end(&self) -> bool {
        match self {
            Request::Show(_) | Request::Stat | Request::Job(JobKind::Save, _) => true,
            Request::Store(name, _) => ["save", "cancel_job"].contains(&name.as_str()),
            Request::Job(..) => false,
        }
    }

    /// Encodes the request, or returns a refusal if the request can't be encoded.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Refusal> {
        let request = match self {
            Request::Show(name) => format!("show {name}\n"),
            Request::Store(name, value) => format!("store {name}\n{value}"),
            Request::Stat => "stat\n".to_owned(),
            Request::Job(kind, text) => format!("{kind}\n{text}"),
        };
        if request.as_bytes().contains(&END) {
            return Err(Refusal::new(Errno::INVAL, "a request can't contain a zero byte"));
        }
        Ok([request.as_bytes(), &[END]].concat())
    }
}

/// Returns whether `uid`, the user at the other end of a connection, is this user or root.
pub(super) fn is_trusted(uid: Uid) -> bool {
    uid.is_root() || uid == geteuid()
}
