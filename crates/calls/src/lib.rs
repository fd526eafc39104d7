//! calls: a table of the system calls of Linux for a pager. The table describes the user memory
//! that each call reads and writes, and the call's other effects.
//!
//! ```text
//!   number, arguments -> row -> Walk: argument by argument -> found(range, access)
//!                                  '- Memory: reads what was reported before, and follows it
//! ```
//!
//! A signal handler can use this crate, because the crate never allocates, blocks, panics or makes
//! a system call. `docs/design/calls.md` lists the invariants (ca-W1 ...).
#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
mod when;

mod argument;
mod count;
mod ioctl;
mod limits;
mod memory;
mod named;
mod numbers;
mod options;
mod policy;
mod sizes;
mod spec;
mod table;
mod walk;

pub use argument::{Access, Argument, Choice, Pointee};
pub use count::{Count, Length};
pub use limits::{ADDRESS_END, TRANSFER_MAX};
pub use memory::Memory;
pub use policy::RANGES_MAX;
pub use spec::{Need, SignalMask, SimpleClass, Special, SyscallSpec, Wait};
pub use table::{name, spec, specs};
pub use walk::ranges;
pub use when::When;
