//! Caches of objects, for an owner that moves the objects and counts every byte. The lowest free
//! object is allocated first, and no objects are kept per thread.
//!
//! A slab's pages are committed when objects on them are allocated. Pages without objects are
//! released, except a few that the cache retains.
//!
//! ```text
//!   MetadataArena -- page::Space<Slab> -- extent | descriptor: links, summary, bits |
//!     `-- Cache (size, alignment): slabs in order of their offsets
//! ```

mod arena;
mod cache;
mod error;
mod geometry;
mod policy;
mod slab;
mod slab_tree;
mod stat;
mod sync;

pub use arena::MetadataArena;
pub use cache::Cache;
pub use error::Error;
pub use geometry::Geometry;
pub use stat::CacheStat;
