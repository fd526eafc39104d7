//! Thresholds of this crate, each with its reason.

/// The maximum size of a host's notes in bytes. A host has few notes. Larger notes belong to other
/// programs, and need not be read.
pub(crate) const NOTES_BYTES_MAX: u64 = 4096;
/// The maximum number of program headers that are searched for a host's note. A host has about ten.
pub(crate) const NOTES_MAX: usize = 64;
