//! Limits that the kernel and the processor set.

/// The lowest address above all addresses that a program can use.
pub const ADDRESS_END: usize = 1 << 56;
/// The maximum number of bytes that the kernel transfers in a call (MAX_RW_COUNT). A walk reports
/// only this number of bytes of a longer buffer.
pub const TRANSFER_MAX: usize = 0x7fff_f000;
/// The minimum page size in bytes. A walk reports a string in parts that end at multiples of this
/// size.
pub(crate) const PAGE: usize = 4096;
/// The lowest address that can be mapped by default (`vm.mmap_min_addr`). A value below this
/// address is treated as a number.
pub(crate) const ADDRESS_LEAST: usize = 1 << 16;
/// The maximum number of `iovec`s, or of messages, in a call. The kernel refuses a larger number.
pub(crate) const IOVECS_MAX: usize = libc::UIO_MAXIOV as usize;
/// The maximum number of futexes for which `futex_waitv` waits.
pub(crate) const WAITERS_MAX: usize = 128;
/// The maximum length in bytes of a string for `execve`, including its NUL.
pub(crate) const TEXT_MAX: usize = 1 << 17;
/// The maximum number of nested PID namespaces. `clone3` can set one process ID for each namespace.
pub(crate) const SET_TID_MAX: usize = 32;
