//! runtime: handles the system calls and faults of a program in order to compress the program's
//! heap and its private anonymous mappings.
//!
//! ```text
//!   system call -> dispatch -> Program (hook) -> mappings: mmap, munmap, mprotect ... of the arena
//!                                            '-> pins: buffers are filled and pinned
//!   touch of an evicted block -> dispatch -> Program::fault -> zmem: the arena
//! ```
//! The runtime is independent of the program's libraries. Its heap lies in separate mappings, and
//! it takes no lock of the C library. `docs/design/runtime.md` lists the invariants (pl-1 ...). On
//! processors other than x86-64, the crate is empty, because `dispatch` does not support them.
#![cfg(target_arch = "x86_64")]

mod begin;
mod cause;
mod changes;
mod clock;
mod cost;
mod debugged;
mod debuggers;
mod ends;
mod exec;
mod executed;
mod execution;
mod filter;
mod filtered;
mod flow;
mod group;
mod heap;
mod helpers;
mod hook;
mod kernel;
mod leaving;
mod left_out;
mod limits;
mod mappings;
mod memory_map;
mod needs;
mod over_limit;
mod own_thread;
mod peers;
mod pieces;
mod pins;
mod placing;
mod policy;
mod program;
mod report;
mod robust;
mod say;
mod settings;
mod simple;
mod sleeps;
mod space;
mod split;
mod threads;
mod traced;
mod tries;
mod user;
mod uses;
mod watch;
mod windows;

pub use begin::begin;
pub use memory_map::MemoryMap;
pub use settings::check_version;
