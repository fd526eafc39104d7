//! Limits of this crate, each with its reason.

/// The maximum number of bytes that are read from the file of the processes' figures: some hundred
/// thousand lines.
pub(crate) const STATS_BYTES_MAX: u64 = 64 << 20;
/// The descriptor of the shared file is one of the `LAST` highest numbers below `TABLE`, or below
/// the process's limit of descriptors if that limit is lower. Calls that open files return the
/// lowest free number, so programs rarely use these numbers.
pub(crate) const TABLE: u64 = 1024;
pub(crate) const LAST: u64 = 64;
