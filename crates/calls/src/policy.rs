//! Limits of a walk that come from this crate and not from the kernel, each with its reason.

/// The maximum number of ranges that a walk reports. The value suffices for 1024 messages of 1024
/// buffers each, and for the headers of these messages.
pub const RANGES_MAX: usize = 1 << 21;
/// The maximum number of `iocb`s that the walk follows. The value is the kernel's default for
/// `fs.aio-max-nr`, the number of requests that all processes together can have in progress.
pub(crate) const IOCBS_MAX: usize = 1 << 16;
/// The maximum number of machine words that the walk examines in a structure. These words fill one
/// page. Structures with addresses are smaller than a page. Larger structures, such as the
/// registers of a virtual machine, hold other data.
pub(crate) const WORDS_MAX: usize = 512;
