//! zram: a device of 4 KiB slots whose data lies compressed in memory, one by one or several as one block.
//!
//! ```text
//!   write(offset, bytes): split into blocks and slots -> same-filled? -> zcomp compresses -> worth it?
//!     -> zsmalloc stores -> slot swapped under its lock -> what it held before is freed
//!   read(offset, buf): slot under its lock -> fill pattern | object decompressed in place
//! ```
//!
//! A slot is a word of the pool ([`zsmalloc::Slots`]): its lock is the slot's, and many readers share it.
//! There is no other lock on the way but that of the size class, and the stream a thread compresses with.
#![forbid(unsafe_code)]

mod algorithms;
mod attributes;
mod blocks;
mod buffer;
mod clock;
mod cold;
mod config;
mod device;
mod error;
mod fill;
mod hook;
mod layout;
mod life;
mod make;
pub mod memparse;
mod opening;
mod parts;
mod request;
mod save;
mod slot;
mod stat;
mod states;
mod stop;
mod streams;
mod table;
mod total;

pub use algorithms::{Algorithm, SECONDARY_MAX};
pub use attributes::{Access, Attribute, attributes};
pub use cold::{
    Backing, BackingFile, BdStat, DamagedLeft, JobKind, JobStat, Recompress, Recompressed,
    Selection, Which, WritebackLimit, WrittenBack,
};
pub use config::{BLOCK, Compaction, Config, Fork};
pub use device::Device;
pub use error::{BadValue, Error};
pub use life::{Open, Zram};
pub use page::room;
pub use save::{Damage, Restored, SaveOptions, Saved, SavedHeader, Unreadable};
pub use stat::{DebugStat, IoStat, MmStat, OrderStat};
pub use states::{BlockState, SlotState};
pub use zsmalloc::CompactionStat;

// The examples of README are compiled, and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
