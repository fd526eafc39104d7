//! Object caches: many objects of one size, packed into slabs of pages.
//!
//! The data that manages a slab lies in the descriptor of the slab's pages, and in heap memory.
//! From an object's address, the descriptor is found in constant time. So a slab of the default
//! layout contains only objects. Each thread owns slabs in which it allocates and frees objects
//! without a lock. If a thread frees an object of another thread's slab, the slab's owner collects
//! the object later.
//!
//! ```text
//!   Cache<T>, CacheBox<T> --> RawCache --> slabs of the thread's own
//!                                      --> slabs without an owner: partial, full, free
//!   Arena -- page::Space<Slab> -- extent | descriptor: links, active, first object, index, owner |
//!                                            `-- block, in the heap: live bits, index off the slab
//! ```
//! ```
//! let arena = slab::Arena::new(page::Config::default())?;
//! let cache = slab::Cache::new(&arena, "points")?;
//! let point = cache.alloc([1.0, 2.0])?;
//! assert_eq!(*point, [1.0, 2.0]);
//! drop(point);
//! cache.destroy().expect("all are free");
//! # Ok::<(), slab::Error>(())
//! ```

mod alloc;
mod arena;
mod bits;
mod cache;
mod cache_id;
mod check;
mod depot;
mod divider;
mod error;
mod fork;
mod grow;
mod layout;
mod layouts_2013;
mod leak;
mod life;
mod lists;
#[cfg(all(test, loom))]
mod loom_tests;
mod options;
mod own;
mod policy;
mod raw;
mod red_zones;
mod shape;
mod shrink;
mod slab;
mod slab_ref;
mod slabinfo;
mod stat;
mod sync;
mod thread;
mod thread_slabs;

pub use arena::Arena;
pub use cache::{Cache, CacheBox, Construct, ConstructedCache};
pub use crossbeam_epoch::{Guard, pin};
pub use error::Error;
pub use layout::{Layout, line_align};
pub use leak::Leak;
pub use options::{Debug, Memory, Options, Tunables};
pub use raw::RawCache;
pub use shape::Shape;
pub use slabinfo::SlabInfo;
pub use stat::CacheStat;
