//! Reasons for the end of a connection.

use std::io;

/// The fault for which a server ends a connection. The client causes all faults except
/// [`Unreadable`](Fault::Unreadable). The server logs a fault, but sends no reply, because the
/// client may be unable to detect where the reply begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("unknown client flags")]
    ClientFlags,
    #[error("an option without the option magic")]
    OptionMagic,
    #[error("an option longer than 64 KiB")]
    OptionLength,
    #[error("more than 64 options")]
    Options,
    #[error("unknown export requested")]
    Export,
    #[error("no export chosen within 10 s")]
    Slow,
    #[error("a request without the request magic")]
    RequestMagic,
    #[error("a write longer than 32 MiB")]
    WriteLength,
    #[error("timeout while receiving a request")]
    Stalled,
    #[error("timeout while sending a reply")]
    Untaken,
    #[error("a block could not be read in the middle of a reply")]
    Unreadable,
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client sent DISC or ABORT, or closed the connection between requests.
    Left,
    /// The connection broke, the client closed the connection within a request, or the server had
    /// no memory for its buffers.
    Broken(io::Error),
    /// The server ended the connection because of a fault.
    Fault(Fault),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        End::Fault(fault)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        End::Broken(error)
    }
}
