//! Code that tests and fuzz targets share. Product crates depend on this crate only as a
//! dev-dependency.
//!
//! A [`Model`] is a structure together with its expected behaviour. Events are drawn at random,
//! from a seed in tests and from the fuzzer's bytes in a fuzz target. Each event is applied to the
//! structure and to the expected behaviour, and the results are compared. If a run fails, its
//! events are reduced to a few, and printed as the code of a test.
//!
//! Without features, this crate depends on no product crate, so that unit tests and loom models of
//! product crates can use it. Code that depends on a product crate is behind a feature with that
//! crate's name.
#![allow(missing_docs, reason = "as in tests: names say it")]
#![allow(clippy::unwrap_used)]

#[cfg(all(feature = "zmem", not(loom)))]
pub mod arena;
#[cfg(feature = "tempfile")]
pub mod beside;
#[cfg(feature = "zram")]
pub mod cached;
#[cfg(all(feature = "calls", target_arch = "x86_64"))]
pub mod calls;
pub mod cgroup;
pub mod child;
mod choices;
#[cfg(feature = "zcomp")]
pub mod codec;
pub mod contents;
#[cfg(feature = "zram")]
pub mod device;
#[cfg(feature = "zram")]
pub mod disk;
#[cfg(feature = "zsmalloc")]
pub mod entries;
#[cfg(feature = "zram")]
pub mod faulty;
#[cfg(feature = "zcomp")]
pub mod fence;
#[cfg(feature = "zsmalloc")]
pub mod geometry;
#[cfg(feature = "zsmalloc")]
pub mod handles;
#[cfg(feature = "zram")]
pub mod idle;
pub mod load;
mod model;
pub mod nbd;
// Models of loom use no regions.
#[cfg(all(feature = "zmem", not(loom)))]
pub mod pager;
#[cfg(feature = "zsmalloc")]
pub mod pool;
#[cfg(feature = "tempfile")]
pub mod programs;
mod quiet;
#[cfg(feature = "zram")]
pub mod range;
pub mod rights;
pub mod s3;
pub mod s4;
pub mod samples;
#[cfg(feature = "zram")]
pub mod saved;
mod seed;
#[cfg(feature = "zcomp")]
pub mod settings;
#[cfg(feature = "zram")]
pub mod shadow;
pub mod shrink;
#[cfg(feature = "page")]
pub mod space;
#[cfg(feature = "slab")]
pub mod subject;
#[cfg(feature = "page")]
pub mod supply;
pub mod wait;
#[cfg(feature = "zcomp")]
pub mod watched_codec;

pub use choices::Choices;
pub use model::{Model, Run, fuzz, replay, run, run_any};
pub use seed::{is_long, load_time, random_seed, scaled, seed, seed_of, setting};

/// Returns the maximum number of mappings of a process.
pub fn mappings_max() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    text.trim().parse().unwrap()
}

/// The folder of the header files that C programs of tests include.
pub const INCLUDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/c");
