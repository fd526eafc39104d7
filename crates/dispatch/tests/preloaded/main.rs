//! Runs programs with a preloaded library that dispatches and counts all of their system calls.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used)]

mod calls;
mod simple;
mod support;
mod tools;
