//! Object caches: many objects of one size, packed into slabs of pages.
//!
//! A slab is an extent; what manages it lies in the extent's descriptor, found by address in constant
//! time, so nothing but objects lies in the slab (the change that SLAB made in 2013). Caches share the
//! pages of one [`Arena`]; a slab's pages are committed as its objects are first used, and an empty slab
//! is given back, but for one that a cache keeps ready.
//!
//! ```text
//!   Arena ── page::Space<Slab> ── extent | descriptor: list links, active, used bits |
//!     └── RawCache (size, alignment) ── Cache<T> ── CacheBox<T>
//! ```

mod arena;
mod cache;
mod descriptor;
mod error;
mod geometry;
mod raw;
mod sync;

pub use arena::Arena;
pub use cache::{Cache, CacheBox};
pub use error::Error;
pub use geometry::Geometry;
pub use raw::{CacheStat, RawCache};
