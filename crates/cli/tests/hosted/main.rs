//! Tests programs that a host (`uzram-host`) runs with settings chosen by the tests. The output of
//! a program must be the same as without a host.
#![allow(clippy::unwrap_used, reason = "tests")]
#![cfg(target_arch = "x86_64")]

mod calls;
mod programs;
mod python;
mod support;
