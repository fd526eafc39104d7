//! procgroup: processes that share one memory limit.
//!
//! ```text
//!   each process:  zmem::Arena -> its limit -> SharedLimit: GroupMember -.
//!                  a signal: Request <-----------------------------------+-- other processes
//!   ProcessGroup:  | head | a slot for each process | a row of figures for each process |
//!                       '-> a copy -> GroupSnapshot, in a process outside of the group
//! ```
//! A process evicts only its own blocks. Each process adds up the memory that all processes hold. A
//! process can ask another process to evict blocks, to fill evicted memory, or to keep its memory
//! resident.
//!
//! `docs/design/procgroup.md` lists the invariants (zm-L4 ...).

mod figures;
mod group;
mod inherited;
mod layout;
mod limit;
mod member;
mod messages;
mod over_limit;
mod own_slot;
mod peers;
mod policy;
mod process;
mod request;
mod shared_memory;
mod snapshot;
mod sums;
mod waits;

pub use figures::Figures;
pub use group::ProcessGroup;
pub use member::GroupMember;
pub use messages::{Exceeded, take_lacking, takes_traced};
pub use over_limit::{Holdings, OverLimit};
pub use peers::Kept;
pub use process::is_gone;
pub use request::Request;
pub use snapshot::{GroupSnapshot, Presence, ProcessSnapshot};

#[cfg(test)]
mod tests;
