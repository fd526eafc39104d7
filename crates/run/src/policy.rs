//! Limits of this crate, each with its reason.

/// The maximum number of bytes that are read from a statistics file, which suffices for some
/// hundred thousand processes.
pub(crate) const STATS_BYTES_MAX: u64 = 64 << 20;
/// The descriptor of the shared file is one of the `LAST` highest numbers below `TABLE`. If the
/// process's limit of descriptors is lower than `TABLE`, the limit replaces `TABLE`. Programs
/// rarely use these numbers, because the kernel assigns the lowest free number to a new descriptor.
pub(crate) const TABLE: u64 = 1024;
pub(crate) const LAST: u64 = 64;
