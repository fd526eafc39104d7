//! procgroup: processes that share one memory limit.
//!
//! ```text
//!   each process:  zmem::Arena -> its limit -> SharedLimit: GroupMember -.
//!                  a signal: Request <-----------------------------------+-- other processes
//!   ProcessGroup:  | head | a slot for each process | a row of figures for each process |
//!                       '-> a copy -> GroupSnapshot, in a process outside of the group
//! ```
//! A process evicts only its own blocks. It adds up the memory that all processes hold, and can ask
//! another process to evict, to fill absent memory, or to keep its memory resident.
//!
//! The rules (zm-L4 ...) are in `docs/design/procgroup.md`.

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
