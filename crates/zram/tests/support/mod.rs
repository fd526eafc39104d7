//! What tests of the device share: an array beside it that holds what must be in it, and load from
//! threads.
#![allow(dead_code, clippy::unwrap_used)]

pub mod cached;
pub mod data;
pub mod disk;
pub mod faulty;
pub mod idle;
#[path = "../../../zsmalloc/tests/support/mod.rs"]
pub mod load;
pub mod shadow;
