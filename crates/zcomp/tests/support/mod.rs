//! What the tests of this crate share: memory with fences, and data of all kinds.

pub mod data;
pub mod fence;
