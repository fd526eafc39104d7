//! calls: which user memory each system call of Linux reads and writes, as a table.
//!
//! ```text
//!   number, arguments -> row -> Walk: argument by argument -> found(range, access)
//!                                  '- Memory: reads what was told before, and follows it
//! ```
//!
//! A handler of signals can use it: nothing here allocates, waits, or panics, and no system call is
//! made. Rules (ca-W1 ...) stand in `docs/design/calls.md`.
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
