//! Programs with every system call dispatched, by a library that is preloaded and counts.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used)]

mod calls;
mod simple;
mod support;
mod tools;
