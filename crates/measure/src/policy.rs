//! Thresholds of this crate, each with its reason.

/// The maximum number of files of a kind whose names are reported. More lines would hide the rest
/// of a command's output.
pub(crate) const NAMED_MAX: usize = 100;
