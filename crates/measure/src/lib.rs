//! Definitions that the command `uzram` and `bench` share: pages, the way from paths to pages, one
//! clock, and one reader of a process's memory.
//!
//! ```text
//!   paths -> pages::plan -> FilePlan -> PageReader -> pages    memory, clock: figures of the work
//! ```
#![forbid(unsafe_code)]

pub mod clock;
mod error;
mod interrupt;
pub mod memory;
pub mod page;
pub mod pages;

pub use error::{Error, escaped};
pub use interrupt::Interrupt;
