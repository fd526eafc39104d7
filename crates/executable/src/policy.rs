//! Thresholds of this crate, each with its reason.

/// The maximum size in bytes of the ELF notes of a `uzram-host`, which are few. Larger notes belong
/// to other programs, and need not be read.
pub(crate) const NOTES_BYTES_MAX: u64 = 4096;
/// The maximum number of program headers that are searched for the note of a `uzram-host`, which
/// has about ten headers.
pub(crate) const NOTES_MAX: usize = 64;
