//! Functions for administrators of servers: passed sockets, metrics, and lines printed every
//! second.

pub(crate) mod exposition;
pub(crate) mod metrics;
pub(crate) mod passed;
pub(crate) mod watch;
