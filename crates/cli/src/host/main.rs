//! `uzram-host SETTINGS FILE PATH ARGV0 [ARGUMENTS]`: runs the program in FILE, which was executed
//! as PATH, and compresses the program's memory. If no host can be injected, `uzram run` executes a
//! host in place of the program. The runtime then executes a host in place of each program that
//! this program executes.
//!
//! ```text
//!   kernel: execve(uzram-host) -> start: FILE -> #! -> the runtime begins
//!     -> the program and the loader that it names are mapped, as by calls of the program
//!     -> stack as execve makes it -> the entry point
//!
//!   a process that has executed a program -> inject -> start: injected -> the runtime begins
//!     -> the entry point
//! ```
#![cfg_attr(target_arch = "x86_64", no_main)]

#[cfg(target_arch = "x86_64")]
mod areas;
#[cfg(target_arch = "x86_64")]
mod image;
#[cfg(target_arch = "x86_64")]
mod injected;
#[cfg(target_arch = "x86_64")]
mod policy;
#[cfg(target_arch = "x86_64")]
mod stack;
#[cfg(target_arch = "x86_64")]
mod start;
#[cfg(target_arch = "x86_64")]
mod zeros;

#[cfg(not(target_arch = "x86_64"))]
fn main() -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
