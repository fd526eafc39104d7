//! Tuning parameters.

/// The size of a message in bytes, including the zero at its end. Longer messages are truncated.
pub(crate) const MESSAGE_BYTES: usize = 512;
