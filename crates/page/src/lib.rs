//! Allocates pages of the operating system, for the crates that use this one.
//!
//! A [`Space`] allocates [`Extent`]s, which are runs of consecutive pages of address space, each
//! with a descriptor. Address space is cheap, and is reserved in segments. Memory is *committed*
//! and released page by page. A [`Budget`] limits the committed pages. Every byte of a space has an
//! *offset* below 4 TiB. The extent that contains a byte is found in constant time, from the byte's
//! offset or address.
//!
//! ```text
//!   Space -- sections (64 MiB of offsets each) --> base address, map (4 bytes a granule)
//!     |                                                              |
//!     `-- table of Extent<D> <--------- extent number ---------------+
//! ```

mod address_index;
pub mod bits;
mod budget;
mod config;
mod confined;
mod error;
mod extent;
pub mod fork;
mod free_runs;
pub mod heap;
mod list;
#[cfg(all(test, loom))]
mod loom_tests;
mod mapping;
mod max_tree;
mod patience;
mod policy;
mod residency;
pub mod room;
mod section;
mod sections;
mod slots;
mod space;
mod sync;
mod table;
mod zeroed;

pub use bits::{EXTENT_PAGES_MAX, PageSet};
pub use budget::{Budget, RefuseNth, Request, Supply};
pub use config::{Config, OFFSET_BITS, page_shift, page_size};
pub use confined::{is_confined, set_confined};
pub use error::Error;
pub use extent::{Extent, ExtentId};
pub use list::{Links, ListHead};

pub use mapping::stuck_bytes;
pub use patience::Patience;
pub use residency::Residency;
pub use slots::SlotGrid;
pub use space::Space;
pub use zeroed::Zeroed;
