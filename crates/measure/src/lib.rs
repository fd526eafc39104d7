//! Code that the command `uzram` and `bench` share: pages, the plan that assigns files to pages, a
//! clock, and a reader of a process's memory use.
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
mod policy;

pub use error::{Error, escaped};
pub use interrupt::Interrupt;
