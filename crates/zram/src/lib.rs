//! zram: a device of 4 KiB slots whose data lies compressed in memory, one by one or several as one
//! block.
//!
//! ```text
//!   write(offset, bytes): split into blocks and slots -> same-filled? -> zcomp compresses -> worth it?
//!     -> zsmalloc stores -> slot swapped under its lock -> what it held before is freed
//!   read(offset, buf): slot under its lock -> fill pattern | object decompressed in place
//! ```
//!
//! A slot is an entry of the pool ([`zsmalloc::EntryPool`]): its lock is the slot's, and many
//! readers share it. There is no other lock on the way but that of the size class, and the stream a
//! thread compresses with.
#![forbid(unsafe_code)]

mod algorithms;
mod attributes;
mod block_state;
mod blocks;
mod build;
mod clock;
mod cold;
mod config;
mod device;
mod error;
mod fill;
mod hook;
mod layout;
pub mod memparse;
mod open_file;
mod parts;
mod request;
mod save;
mod slot;
mod stats;
mod stop;
mod streams;
mod table;
mod total_limit;
mod try_vec;
mod zram;

pub use algorithms::{Algorithm, SECONDARY_MAX};
pub use attributes::{Access, Attribute, attributes};
pub use block_state::{BlockState, SlotState};
pub use cold::{
    Backing, BackingFile, BdStat, DamagedLeft, JobKind, JobStat, Recompress, Recompressed,
    Selection, Which, WritebackLimit, WrittenBack,
};
pub use config::{Compaction, Config, Fork, SLOT_BYTES};
pub use device::Device;
pub use error::{BadValue, Error};
pub use page::room;
pub use save::{Damage, Restored, SaveOptions, Saved, SavedHeader, Unreadable};
pub use stats::{DebugStat, IoStat, MmStat, OrderStat};
pub use zram::{Open, Zram};
pub use zsmalloc::CompactionStat;

// The examples of README are compiled, and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
