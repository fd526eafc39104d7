//! dispatch: every system call of an unmodified program comes to a function of ours first, without
//! a right, by the kernel's syscall user dispatch (Linux 5.11).
//!
//! ```text
//!   program: syscall -> SIGSYS -> entry -> Hook::call -> issue, with the program's mask -> result
//!                                   |                      '-- a signal: ended, or undone, then
//!                                   |                          the program's handler
//!                                   |- answered here: masks, actions, stacks, returns of signals
//!                                   '- children: threads, fork, vfork, which are armed as well
//! ```
//! The rules (di-1 ...) stand in `docs/design.md`.

mod error;
mod hook;

#[cfg(target_arch = "x86_64")]
mod actions;
#[cfg(target_arch = "x86_64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod brief;
#[cfg(target_arch = "x86_64")]
mod call;
#[cfg(target_arch = "x86_64")]
mod children;
#[cfg(target_arch = "x86_64")]
mod deliver;
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
#[cfg(target_arch = "x86_64")]
mod entry;
#[cfg(target_arch = "x86_64")]
mod mask;
#[cfg(target_arch = "x86_64")]
mod signal_calls;
#[cfg(target_arch = "x86_64")]
mod thread;
#[cfg(target_arch = "x86_64")]
mod user;
#[cfg(target_arch = "x86_64")]
pub mod wrappers;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use arm::arm;
#[cfg(target_arch = "x86_64")]
pub use call::{Call, NOTE_WORDS};
#[cfg(not(target_arch = "x86_64"))]
pub use elsewhere::{Call, arm};
pub use error::Error;
pub use hook::{Begins, Direct, Hook, Outcome, Step};
#[cfg(target_arch = "x86_64")]
pub use user::read_memory;
#[cfg(target_arch = "x86_64")]
pub use x86_64::instructions::raw_syscall;
