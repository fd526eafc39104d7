//! The NBD server: fixed newstyle negotiation, simple and structured replies.
//!
//! `bounds` defines the server's limits. `handshake`, `option_reply`, `meta_context`, `request` and
//! `reply` decode and encode bytes, and do no I/O. `execute` carries out requests on a disk.
//! `connection` manages the threads and locks.

mod batch;
#[doc(hidden)]
pub mod bounds;
mod buffer;
mod connection;
mod disconnect;
mod execute;
mod export;
mod extra_workers;
mod handshake;
mod input;
mod large_writes;
mod meta_context;
mod option_reply;
mod receiving;
mod reply;
mod request;
mod script;
mod sending;
mod server;
mod stream;
mod wire;

pub use bounds::HALF_OPEN_MAX;
pub use connection::WORKER_RESERVE;
pub use export::{Export, Exports, Mode};
pub use script::converse;
pub use server::{HALF_OPEN_RESERVE, Options, Server};
