//! Pages from the operating system, at the grain the layers above need them.
//!
//! A [`Space`] hands out [`Extent`]s: runs of consecutive pages of address space with a descriptor.
//! Address space is cheap and comes in segments; memory is not and is *committed* page by page
//! under a [`Budget`], and given back page by page. Every byte of a space has an *offset* (below 4
//! TiB), from which its extent is found in constant time, as it is from an address.
//!
//! ```text
//!   Space -- sections (64 MiB of offsets each) --> base address, map (4 bytes a granule)
//!     |                                                              |
//!     `-- table of Extent<D> <--------- extent number ---------------+
//! ```

mod address_index;
pub mod bits;
mod budget;
mod error;
mod extent;
mod extent_table;
pub mod fork;
mod leftover;
#[cfg(all(test, loom))]
mod loom_tests;
mod mapping;
mod max_tree;
mod pageset;
pub mod room;
mod section;
mod sections;
mod size;
mod space;
mod supply;
mod sync;
mod table;
mod zeroed;

pub use budget::Budget;
pub use error::Error;
pub use extent::{Extent, ExtentId};
pub use leftover::stuck_bytes;
pub use pageset::{EXTENT_PAGES_MAX, PageSet};
pub use size::{page_shift, page_size};
pub use space::{Config, OFFSET_BITS, Space};
pub use supply::{RefuseNth, Request, Supply};
pub use zeroed::Zeroed;
