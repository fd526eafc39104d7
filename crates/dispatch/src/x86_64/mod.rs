//! What of this crate is x86-64: its instructions, its signal frames, and its simple calls.

pub(crate) mod frame;
pub(crate) mod instructions;
pub(crate) mod keys;
pub(crate) mod place;
pub mod simple;
