//! What of this crate is x86-64: its instructions, and its signal frames.

pub(crate) mod frame;
pub(crate) mod instructions;
pub(crate) mod keys;
