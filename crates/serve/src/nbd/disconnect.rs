//! Why a connection ends.

use std::io;

/// What a client did that ends its connection. It is told in the log, not to the client: it can't
/// be relied on to know where a reply begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("it has flags that are not known")]
    ClientFlags,
    #[error("an option does not begin as one")]
    OptionMagic,
    #[error("an option is longer than 64 KiB")]
    OptionLength,
    #[error("it sent more than 64 options")]
    Options,
    #[error("it asked for an export that there is not")]
    Export,
    #[error("it chose no export within 10 s")]
    Slow,
    #[error("a request does not begin as one")]
    RequestMagic,
    #[error("a write is longer than 32 MiB")]
    WriteLength,
    #[error("a request did not come whole in time")]
    Stalled,
    #[error("it did not take a reply in time")]
    Untaken,
    #[error("a block can't be read, in the midst of a reply")]
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
