//! Thresholds of this crate, each with its reason.

/// The maximum size in bytes of an ELF segment that is searched for the note of a `uzram-host`. A
/// larger segment does not contain this note, and need not be read.
pub(crate) const NOTES_BYTES_MAX: u64 = 4096;
/// The maximum number of program headers that are searched for the note of a `uzram-host`, which
/// has about ten headers.
pub(crate) const NOTES_MAX: usize = 64;
