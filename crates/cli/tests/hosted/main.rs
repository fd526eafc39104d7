//! Programs that a host runs, by settings of the test's own: they show the same as natively.
#![allow(clippy::unwrap_used, reason = "tests")]
#![cfg(target_arch = "x86_64")]

mod calls;
mod programs;
mod python;
mod support;
