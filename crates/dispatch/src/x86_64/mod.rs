//! The parts of this crate for x86-64: instructions, signal frames, simple calls and their tails.

pub(crate) mod frame;
pub(crate) mod info;
pub(crate) mod instructions;
pub(crate) mod keys;
pub(crate) mod pad;
pub(crate) mod place;
pub mod simple;
pub(crate) mod stub;
pub(crate) mod tail;
