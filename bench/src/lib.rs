//! Measurements of uzram and of its rivals, on real input.
//!
//! An experiment (see [`experiments`]) takes pages from [`inputs`], times work with [`pairing`],
//! measures memory with [`measure::memory`], compares uzram with the kernel's zram ([`kernel`]),
//! and adds every figure to a [`report::Report`]. The experiments of the source documents
//! ([`documents`]) are composed of these and write a report of their own.

pub mod aligned;
pub mod census;
pub mod codec;
pub mod contents;
mod disk;
pub mod documents;
pub mod error;
pub mod experiments;
pub mod filled;
pub mod inputs;
pub mod kernel;
pub mod machine;
pub mod objects;
pub mod pairing;
pub mod processor;
mod processor_time;
pub mod report;
pub mod size;
pub mod stores;
pub mod summary;
pub mod threads;
mod tool;
pub mod turns;
pub mod undo;

pub use error::Error;
