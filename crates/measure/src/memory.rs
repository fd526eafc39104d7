//! The memory that a process uses, in bytes, as the kernel counts it.

mod fields;
mod process;

pub use fields::{Fields, Untold, bytes};
pub use process::{HeldMemory, ProcessMemory};
