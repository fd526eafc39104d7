//! The point at which a test, or a policy, may refuse pages.

/// What a [`Space`](crate::Space) is about to ask of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To map this many bytes of address space.
    Map {
        /// Bytes of the mapping.
        bytes: usize,
    },
    /// To commit this many pages.
    Commit {
        /// Number of pages.
        pages: usize,
    },
}

/// Grants or refuses requests before they reach the system. Refusals are answered as the system's own
/// would be, which is how every failure path is tested.
pub trait Supply: Send + Sync {
    /// Whether the request may go ahead.
    fn grant(&self, request: Request) -> bool;
}
