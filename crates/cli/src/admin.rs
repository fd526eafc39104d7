//! For administrators of servers: sockets passed by a service manager, metrics, and output that is
//! repeated every second.

pub(crate) mod exposition;
pub(crate) mod metrics;
pub(crate) mod passed;
pub(crate) mod watch;
