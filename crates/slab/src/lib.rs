//! Object caches: many objects of one size, packed into slabs of pages.
//!
//! A slab is an extent; what manages it lies in the extent's descriptor, found by address in constant
//! time, so nothing but objects lies in the slab (the change that SLAB made in 2013). Caches share the
//! pages of one [`Arena`]; a slab's pages are committed as objects on them are given out, lowest address
//! first, and a page on which no object lives is given back, but for a few that a cache keeps ready.
//!
//! ```text
//!   Arena -- page::Space<Slab> -- extent | descriptor: links, marks, bits of pages and of objects |
//!     `-- RawCache (size, alignment): slabs in order -- Cache<T> -- CacheBox<T>
//! ```

mod arena;
mod cache;
mod descriptor;
mod error;
mod geometry;
mod order;
mod raw;
mod stat;
mod sync;

pub use arena::Arena;
pub use cache::{Cache, CacheBox};
pub use error::Error;
pub use geometry::Geometry;
pub use raw::RawCache;
pub use stat::CacheStat;
