//! Definitions of figures that `uzram` and `bench` share: one raw codec, one census of pages with
//! C, one reader of memory use, one clock, and one way from paths to pages. The commands that
//! measure are also here.
//!
//! ```text
//!   page -> codec -> census           text -> error -> memory, pages, progress, interrupt
//!   fill:    pages -> device and raw codec, timed; read back -> table or JSON
//!   train:   pages -> samples -> dictionary -> tried on what was held out -> table or JSON
//!   analyze: pages of files or of a process -> sample -> tried on devices -> memory of all data
//!   classes: geometry -> table or JSON
//! ```
#![forbid(unsafe_code)]

pub mod analyze;
pub mod arguments;
pub mod attributes;
mod backing;
pub mod census;
pub mod classes;
pub mod clock;
pub mod codec;
mod error;
pub mod fill;
mod geometry;
mod interrupt;
pub mod memory;
mod outcome;
pub mod output;
pub mod page;
pub mod pages;
pub mod process_status;
mod progress;
pub mod text;
pub mod train;

pub use backing::backing_store;
pub use error::Error;
pub use interrupt::Interrupt;
pub use outcome::Outcome;
pub use progress::Progress;
