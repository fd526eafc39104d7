//! inject: maps a host (the executable `uzram-host`, which contains uzram's runtime) into a process
//! that has executed a program. This happens before the program's first instruction (Linux,
//! x86-64). /proc and debuggers then show the program instead of the host.
//!
//! ```text
//!   process:  Helper::start -- clone --> helper: shares the memory, on a stack of its own
//!             <-- READY ---------------  PTRACE_SEIZE of the process
//!             execve(program) -- stop ->  open, mmap ... of the host, as calls of the process
//!             host's entry <-- detach --  unmaps its `Room`, ends
//!             host: waits for the helper; the runtime begins; the program's first instruction
//! ```
//! `docs/design/inject.md` lists the invariants (in-1 ...). On other processor architectures the
//! crate is empty.
#![cfg(target_arch = "x86_64")]

mod child_signal;
mod control;
mod entry;
mod helper;
mod host_file;
mod limits;
mod maps;
mod namespace;
mod permission;
mod plan;
mod policy;
mod report;
mod rights;
mod stack;
mod steps;
mod system;
mod tracee;

pub use entry::Entry;
pub use helper::{HELPER_FLAGS, Helper};
pub use limits::SoftLimits;
pub use permission::is_permitted;
pub use plan::Plan;
pub use rights::has_capability;
