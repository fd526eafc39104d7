//! Bounds of a walk that the kernel does not set, each with its reason.

/// The maximum number of ranges that a walk reports: enough for 1024 messages of 1024 buffers each,
/// and for the headers of these messages.
pub const RANGES_MAX: usize = 1 << 21;
/// The maximum number of `iocb`s that the walk follows: the kernel's default for the number of
/// requests that all processes together may have in progress (`fs.aio-max-nr`).
pub(crate) const IOCBS_MAX: usize = 1 << 16;
/// The maximum number of words of a structure that are examined: those of a page. Structures that
/// contain addresses are smaller; larger ones, such as the registers of a virtual machine, contain
/// other data.
pub(crate) const WORDS_MAX: usize = 512;
