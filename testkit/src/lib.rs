//! What tests and fuzz targets share. No product crate names it: it is a dev-dependency only.
//!
//! A [`Model`] is a structure beside what it must be like. Events are drawn by chance, from a seed
//! in tests and from the fuzzer's bytes in a target; each is applied to both sides and compared.
//! The events of a run that fails are cut down to a few, and printed as a test that can be pasted.
//!
//! The core knows none of the crates, so that their unit tests and loom models can use it. What
//! knows one is behind a feature with the crate's name.
#![allow(missing_docs, reason = "as in tests: names say it")]
#![allow(clippy::unwrap_used)]

#[cfg(feature = "zram")]
pub mod cached;
pub mod child;
mod choices;
pub mod contents;
#[cfg(feature = "zram")]
pub mod device;
#[cfg(feature = "zram")]
pub mod disk;
#[cfg(feature = "zsmalloc")]
pub mod entries;
#[cfg(feature = "zram")]
pub mod faulty;
#[cfg(feature = "zsmalloc")]
pub mod geometry;
#[cfg(feature = "zsmalloc")]
pub mod handles;
#[cfg(feature = "zram")]
pub mod idle;
mod interleave;
pub mod load;
mod model;
#[cfg(feature = "zsmalloc")]
pub mod pool;
mod quiet;
#[cfg(feature = "zram")]
pub mod range;
pub mod s4;
mod seed;
#[cfg(feature = "zram")]
pub mod shadow;
pub mod shrink;
#[cfg(feature = "slab")]
pub mod subject;
#[cfg(feature = "page")]
pub mod supply;
pub mod wait;

pub use choices::Choices;
pub use interleave::outcomes;
pub use model::{Model, Run, fuzz, replay, run, run_any};
pub use seed::{is_long, load_time, scaled, seed, setting};
