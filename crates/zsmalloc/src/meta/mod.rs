//! Caches for an owner that moves objects and counts every byte: the lowest free object is given
//! out first, pages on which no object lives are given back, and nothing is kept for a thread.
//!
//! A slab's pages are committed as objects on them are given out, and a page on which no object
//! lives is given back, but for a few that a cache retains.
//!
//! ```text
//!   Arena -- page::Space<Slab> -- extent | descriptor: links, summary, bits of pages, of objects |
//!     `-- Cache (size, alignment): slabs in order of their offsets
//! ```

mod arena;
mod cache;
mod error;
mod geometry;
mod slab;
mod slab_tree;
mod stat;
mod sync;

pub use arena::Arena;
pub use cache::Cache;
pub use error::Error;
pub use geometry::Geometry;
pub use stat::CacheStat;
