//! zsmalloc: a pool that packs objects of arbitrary sizes densely.
//!
//! Objects of similar size share *zspages*: extents of consecutive pages. Only pages that an object
//! touches are committed. Every object is one contiguous slice, and belongs to an *entry* of 8
//! bytes. The entry holds the object's place and is the object's lock. The zspage's header holds
//! the entry number of each object.
//!
//! ```text
//!   store: size -> Class -> zspage with room -> lowest free slot -> pages committed
//!          -> bytes copied -> entry swapped under its lock -> old object freed
//!   read:  entry locked for reading (the pin) -> slice
//!   free:  entry -> offset -> extent -> class -> bit cleared -> pages without objects released
//! ```
//!
//! [`EntryPool`] provides numbered entries, for example for a device's slots. [`Pool`] returns
//! opaque [`Handle`]s, each of which encodes an entry's number and generation.

mod background;
mod check;
mod class;
mod class_guard;
mod compact;
mod entry;
mod entry_pool;
mod epoch;
mod error;
mod fork;
mod geometry;
mod guard;
mod handle_slots;
mod inner;
#[cfg(all(test, loom))]
mod loom_tests;
mod memory;
pub mod meta;
mod plan;
mod policy;
mod pool;
mod prefault;
mod purge;
mod read_guard;
mod relocate;
mod retained;
mod search;
mod stats;
mod sync;
mod table;
mod worker;
mod zspage;

pub use crate::entry_pool::EntryPool;
pub use error::Error;
pub use geometry::{
    ChainRule, ClassShape, ClassTable, Geometry, GeometryError, KernelGeometry, ORDER_MAX,
};
pub use guard::{EntryWriteGuard, Reservation, StagedObject};
pub use pool::{Handle, Pool, ReadGuard};
pub use read_guard::{Content, EntryIter, EntryReadGuard, Old};
pub use stats::{ClassStat, Classes, CompactionStat};
pub use table::{Columns, Row};

/// The configuration of a pool.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The size classes, and the shape of their zspages.
    pub geometry: Geometry,
    /// The configuration of the pool's pages, with their limit and the supply that can refuse
    /// pages.
    pub pages: page::Config,
}
