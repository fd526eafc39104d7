//! calls: which user memory each system call of Linux reads and writes, as a table.
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

mod count;
mod ioctl;
mod memory;
mod named_row;
mod numbers;
mod options;
mod row;
mod sizes;
mod table;
mod walk;

pub use count::{Count, Length};
pub use memory::Memory;
pub use row::{Access, Argument, Choice, Form, Lasting, Row, Special};
pub use table::{name, row, rows};
pub use walk::{ADDRESS_END, RANGES_MAX, ranges};
