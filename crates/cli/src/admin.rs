//! What those use who administer a machine with servers: sockets that a service manager passes, and
//! metrics; and what shows something every second.

pub(crate) mod exposition;
pub(crate) mod metrics;
pub(crate) mod passed;
pub(crate) mod watch;
