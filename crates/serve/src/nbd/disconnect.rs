//! Why a connection ends.

use std::io;

/// What a client did that ends its connection. It is told in the log, not to the client: it can't
/// be relied on to know where a reply begins.
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

/// The end of a connection.
#[derive(Debug)]
pub(crate) enum End {
    /// The client said so, or left between requests.
    Left,
    /// The connection broke, or the client left amid a request.
    Broken(io::Error),
    /// The server ended it.
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
