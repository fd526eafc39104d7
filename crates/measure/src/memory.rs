//! The memory that this process and the machine use, in bytes, as the kernel counts it.

mod cgroup;
mod fields;
mod machine;
mod process;
mod room;

pub use fields::{Untold, bytes};
pub use machine::MachineMemory;
pub use process::{HeldMemory, ProcessMemory};
pub use room::{LIMIT_MIN, MemLimit, cgroup_limit, room};
