//! Limits of the kernel and of the processor.

/// The first address above the addresses that a program can use.
pub const ADDRESS_END: usize = 1 << 56;
/// The maximum number of bytes that the kernel transfers in a call (MAX_RW_COUNT). Longer buffers
/// are reported up to this length.
pub const TRANSFER_MAX: usize = 0x7fff_f000;
/// The minimum page size in bytes. Strings are reported in parts that end at multiples of this
/// size.
pub(crate) const PAGE: usize = 4096;
/// The lowest address that can be mapped by default (`vm.mmap_min_addr`). The walk treats smaller
/// values as numbers, not as addresses.
pub(crate) const ADDRESS_LEAST: usize = 1 << 16;
/// The maximum number of `iovec`s and messages of a call. The kernel refuses a larger number.
pub(crate) const IOVECS_MAX: usize = libc::UIO_MAXIOV as usize;
/// The maximum number of waiters of `futex_waitv`.
pub(crate) const WAITERS_MAX: usize = 128;
/// The maximum length in bytes of a string for `execve`, with its NUL.
pub(crate) const TEXT_MAX: usize = 1 << 17;
/// The maximum number of nested PID namespaces, for each of which a process ID can be set.
pub(crate) const SET_TID_MAX: usize = 32;
