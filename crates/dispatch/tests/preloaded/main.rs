//! Programs whose system calls are all dispatched, by a preloaded library that counts them.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used)]

mod calls;
mod simple;
mod support;
mod tools;
