//! The memory that a process uses, in bytes, as counted by the kernel.

mod fields;
mod process;

pub use fields::{Fields, Untold, bytes};
pub use process::{HeldMemory, ProcessMemory};
