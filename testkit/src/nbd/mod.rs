//! The NBD protocol as a client sees it: its numbers, its messages, and a model of all answers of a
//! server.

#[cfg(feature = "serve")]
mod data;
mod frames;
#[cfg(feature = "serve")]
pub mod model;
pub mod numbers;
#[cfg(feature = "serve")]
mod session;

pub use frames::{
    Replies, Reply, bytes, contexts, greeting, header, info, option, option_reply, u16, u32, u64,
};
pub use numbers::*;
