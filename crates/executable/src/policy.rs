//! Thresholds of this crate, each with its reason.

/// The maximum size of a host's notes in bytes. A host has few notes. Larger notes belong to other
/// programs, and need not be read.
pub(crate) const NOTES_BYTES_MAX: u64 = 4096;
