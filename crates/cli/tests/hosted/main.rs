//! Programs that a host runs with settings chosen by the tests. Their output must be the same as
//! natively.
#![allow(clippy::unwrap_used, reason = "tests")]
#![cfg(target_arch = "x86_64")]

mod calls;
mod programs;
mod python;
mod support;
