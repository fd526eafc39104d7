//! The errors of `arm`.

/// The reason why a thread can't be armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel can't dispatch system calls.
    #[error("system calls can't be dispatched here (error {errno}): it takes Linux 5.11 on x86-64")]
    Unsupported {
        /// The kernel's error number.
        errno: i32,
    },
    /// A hook is set already.
    #[error("system calls go to a hook already: a process has one")]
    Armed,
    /// The process has other threads. These threads would not be armed.
    #[error("the process has several threads already: arm before the first one starts")]
    Threads,
    /// The processor stores return addresses on a shadow stack.
    #[error("the process has a shadow stack: start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off")]
    ShadowStack,
    /// The kernel provided no memory for a dispatch block.
    #[error("there is no memory for a signal stack (error {errno})")]
    Memory {
        /// The kernel's error number.
        errno: i32,
    },
    /// The thread runs on an alternate signal stack.
    #[error("the signal stack was refused (error {errno}): arm from outside of signal handlers")]
    Stack {
        /// The kernel's error number.
        errno: i32,
    },
}
