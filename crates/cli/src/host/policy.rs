//! Limits that a host assumes for stacks and programs.

/// The maximum number of bytes of stack that the host uses after it has built the program's stack.
pub(crate) const BELOW: usize = 64 << 10;

/// A host that is not injected uses at most this number of bytes of its stack.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// If a program has more headers than this maximum, its zero-filled pages are not mapped again.
/// Programs have about ten headers.
pub(crate) const HEADERS_MAX: usize = 256;
