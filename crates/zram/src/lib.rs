//! zram: a device of 4 KiB slots whose data are compressed in memory, each slot alone or several
//! slots as one block.
//!
//! ```text
//!   write(offset, bytes): request splits it into blocks and slots -> slot::encode: same-filled?
//!     -> zcomp compresses -> worth it? -> Table::lock -> Table::store -> its old data are freed
//!   read(offset, buf): entry locked for reading -> Table::resolve -> slot::decode
//! ```
//!
//! A slot is an entry of the pool ([`zsmalloc::EntryPool`]). The entry's lock is the slot's lock,
//! which several readers can hold at the same time. A request that needs neither new memory nor the
//! backing store takes only two other locks: the lock of a size class, and the lock of its own
//! stream.
#![forbid(unsafe_code)]

mod algorithms;
mod atomic_file;
mod backing;
mod block;
mod block_state;
mod build;
mod cold;
mod config;
mod counters;
mod device;
mod error;
mod hook;
mod job;
mod layout;
pub mod memparse;
mod open_file;
mod policy;
mod request;
mod save;
mod slot;
mod stats;
mod streams;
mod table;
mod total_limit;
mod try_vec;
mod zram;

pub use algorithms::{Algorithm, SECONDARY_MAX};
pub use atomic_file::{AtomicFile, follow_links};
pub use backing::{Backing, BackingFile, BdStat, WritebackLimit};
pub use block_state::{BlockState, SlotState};
pub use cold::{Recompress, Recompressed, Selection, Which, WrittenBack};
pub use config::{Compaction, Config, Fork};
pub use device::Device;
pub use error::{Access, BadValue, Error};
pub use job::{DamagedLeft, JobKind, JobStat};
pub use layout::SLOT_BYTES;
pub use open_file::{OpenLocked, open_locked};
pub use page::{Supply, room};
pub use save::{Damage, Restored, SaveOptions, SaveTo, Saved, SavedHeader, Unreadable};
pub use stats::{DebugStat, IoStat, MmStat, OrderStat, Written};
pub use zcomp::{Codec, Dictionary, Error as CodecError, Params, by_name, codecs};
pub use zram::{Attribute, Open, Zram, attributes};
pub use zsmalloc::{
    ChainRule, ClassShape, ClassTable, Classes, CompactionStat, Error as PoolError, Geometry,
    GeometryError, KernelGeometry, ORDER_MAX,
};
