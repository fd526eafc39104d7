//! Functions for a server's administrators: sockets from a service manager, metrics, and a status
//! line per second.

pub(crate) mod exposition;
pub(crate) mod metrics;
pub(crate) mod passed;
pub(crate) mod watch;
