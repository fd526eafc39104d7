//! zsmalloc: a pool of objects of odd sizes, packed as densely as there is.
//!
//! Objects of about one size share *zspages*: extents of consecutive pages of which only those are
//! committed that an object touches. Every object is one plain slice. Each belongs to an *owner's word*
//! of 8 bytes that says where it lies and is its lock; beside the object lies only the owner's number.
//!
//! ```text
//!   store: size -> Class -> zspage with room -> lowest free slot -> pages committed -> bytes copied
//!          -> owner's word swapped under its lock -> what it held before is freed
//!   read:  owner's word locked for reading (the pin) -> slice
//!   free:  word -> offset -> extent -> class -> bit cleared -> pages without objects given back
//! ```
//!
//! [`Core`] does all that for an [`Owner`]. There are two: [`Slots`], numbered words for a device, and
//! the cells of [`Pool`], which gives out opaque [`Handle`]s.

mod ahead;
mod background;
mod cells;
mod check;
mod class;
mod compact;
mod core;
mod error;
mod exclusive;
mod fork;
mod geometry;
mod locked;
#[cfg(all(test, loom))]
mod loom_tests;
mod memory;
mod migrate;
mod parts;
mod pins;
mod plan;
mod pool;
mod readers;
mod ready;
mod since;
mod slots;
mod stat;
mod sync;
mod word;
mod words;
mod worker;
mod zspage;

pub use crate::core::{Content, Core, Old, Owner, Pin};
pub use compact::CompactionStat;
pub use error::Error;
pub use exclusive::{Exclusive, Room, Staged};
pub use geometry::{
    ChainRule, ClassShape, ClassTable, Geometry, GeometryError, KernelGeometry, ORDER_MAX,
};
pub use pins::Pins;
pub use pool::{Handle, Pool, ReadGuard};
pub use slots::{BesideSlot, Both, Slots, Stamp, Sum};
pub use stat::{ClassStat, Classes};

/// How a pool is made.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Size classes and zspages.
    pub geometry: Geometry,
    /// The pool's pages: their limit, and who may refuse them.
    pub pages: page::Config,
}
