//! The commands that measure how much memory and time a device needs for the user's data.
//!
//! ```text
//!   fill:    pages -> device and raw codec, timed; read back -> table or JSON
//!   train:   pages -> samples -> dictionary -> tried on what was held out -> table or JSON
//!   analyze: pages of files or of a process -> sample -> tried on devices -> memory of all data
//!   classes: geometry -> table or JSON
//! ```

pub(crate) mod analyze;
pub(crate) mod classes;
pub(crate) mod fill;
mod geometry;
mod outcome;
mod packed;
mod policy;
pub(crate) mod train;

pub(crate) use outcome::{interrupt, measured};
