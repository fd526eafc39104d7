//! What those use who administer a machine with servers: sockets that a service manager passes, and
//! metrics.

pub(crate) mod metrics;
pub(crate) mod passed;
