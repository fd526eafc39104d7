//! Serves a compressed device to other programs, as a disk over the network block device protocol,
//! and as files. The crate also provides a control socket, and metrics over HTTP (`metrics`).
//!
//! ```text
//!   accept -> handshake: an export is chosen
//!          -> workers: receive -> batch of requests -> disk -> replies
//! ```
#![forbid(unsafe_code)]

mod accept;
mod address;
mod client_set;
pub mod control;
pub mod descriptors;
mod disk;
pub mod fuse;
mod holders;
mod log;
pub mod metrics;
mod mountinfo;
pub mod nbd;
pub mod own;
mod policy;
mod socket;
mod spawn;
mod steered;

pub use address::{Address, AddressError, Listening};
pub use disk::{Disk, Extent};
pub use log::Log;
pub use spawn::{spawn, spawn_within};
