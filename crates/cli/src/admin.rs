//! For administrators of servers: sockets that a service manager passes, metrics, and output that
//! is repeated every second.

pub(crate) mod exposition;
pub(crate) mod metrics;
pub(crate) mod passed;
pub(crate) mod watch;
