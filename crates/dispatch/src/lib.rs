//! dispatch: calls a function before every system call of an unmodified program. This crate uses
//! the kernel's syscall user dispatch (Linux 5.11), which needs no privileges.
//!
//! ```text
//!   program: syscall -> SIGSYS -> entry -> Hook::call -> issue, with the program's mask -> result
//!                                   |                      '-- a signal: completed or undone, then
//!                                   |                          the program's handler
//!                                   |- handled here: masks, actions, stacks, returns of signals
//!                                   '- children: threads, fork, vfork, which are armed as well
//! ```
//! The rules (di-1 ...) are in `docs/design/dispatch.md`.

mod error;
mod hook;

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;

/// All modules that depend on the processor architecture. Their files are in the same directory as
/// this file.
#[cfg(target_arch = "x86_64")]
#[path = "."]
mod here {
    pub(crate) mod actions;
    pub(crate) mod arm;
    pub(crate) mod block;
    pub(crate) mod call;
    pub(crate) mod children;
    pub(crate) mod code;
    pub(crate) mod deliver;
    pub(crate) mod entry;
    pub(crate) mod mask;
    pub(crate) mod pause;
    pub(crate) mod pointer;
    pub(crate) mod policy;
    pub(crate) mod repeat;
    pub(crate) mod room;
    pub(crate) mod selector;
    pub(crate) mod settle;
    pub(crate) mod signal_calls;
    pub(crate) mod site;
    pub(crate) mod sites;
    pub(crate) mod stopped;
    pub(crate) mod storage;
    pub(crate) mod system;
    pub(crate) mod thread;
    pub(crate) mod user;
    pub(crate) mod way;
    pub(crate) mod x86_64;

    pub use arm::arm;
    pub use call::Call;
    pub use pointer::use_calls_for_pointers;
    pub use policy::NOTE_WORDS;
    pub use room::{Room, Run};
    pub use selector::PR_SET_SYSCALL_USER_DISPATCH;
    pub use sites::{release as release_code, release_all as release_all_code};
    pub use system::{Failed, OwnFile, system};
    pub use user::{copy_memory, read_memory, write_memory};
    pub use x86_64::instructions::{raw_syscall, raw_syscall_address};
    pub use x86_64::simple;
    pub use x86_64::tail::all as tails;
}

#[cfg(not(target_arch = "x86_64"))]
pub use elsewhere::{Call, arm};
pub use error::Error;
#[cfg(target_arch = "x86_64")]
pub use here::*;
pub use hook::{Hook, Outcome, Step};
