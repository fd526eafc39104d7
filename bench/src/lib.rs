//! Measurements of uzram and of its rivals, on real input.
//!
//! An experiment (see [`experiments`]) takes pages from [`inputs`], times work with [`turns`], and
//! measures memory with [`measure::memory`]. The experiment compares uzram with the kernel's zram
//! ([`kernel`]), and adds every figure to a [`report::Report`]. The experiments of the source
//! documents ([`documents`]) use the same modules and write a report of their own.

pub mod aligned;
pub mod blobs;
pub mod census;
pub mod codec;
mod disk;
pub mod documents;
pub mod error;
pub mod experiments;
pub mod filled;
pub mod inputs;
pub mod kernel;
pub mod machine;
mod method;
pub mod own;
pub mod processor;
mod processor_time;
pub mod report;
pub mod size;
pub mod summary;
pub mod threads;
mod tool;
mod trim;
pub mod turns;
pub mod undo;

pub use error::Error;
