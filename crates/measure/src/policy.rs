//! Thresholds of this crate, each with its reason.

/// The maximum number of skipped files that are named for each reason. More lines would hide the
/// other output of a command.
pub(crate) const NAMED_MAX: usize = 100;
