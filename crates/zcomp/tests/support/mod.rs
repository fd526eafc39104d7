//! What the tests of this crate share: memory with fences, data of all kinds, and settings to try.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod data;
pub mod fence;
pub mod setting;
