//! Sizes that a host assumes of stacks and programs.

/// The maximum number of bytes of stack that calls use between the construction of the new stack
/// and the entry to the program.
pub(crate) const BELOW: usize = 64 << 10;

/// The maximum number of bytes of stack that a host uses.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// The maximum number of headers of a program whose zero-filled pages are mapped again. Programs
/// have some ten headers.
pub(crate) const HEADERS_MAX: usize = 256;
