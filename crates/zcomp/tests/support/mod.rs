//! What the tests of this crate share: memory with fences, data of all kinds, and settings to try.

pub mod data;
pub mod fence;
pub mod setting;
