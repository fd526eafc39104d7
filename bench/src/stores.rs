//! Stores of byte strings by slot, by uzram and the rivals, behind one trait, so that all of them
//! do the same work.

mod device;
mod glibc;
mod heap;
mod holder;
#[cfg(feature = "rivals")]
mod jemalloc;
mod kept;
#[cfg(feature = "rivals")]
mod mimalloc;
mod pool;
mod serve;
mod slots;

pub use device::DeviceStore;
pub use glibc::Glibc;
pub use heap::{Allocator, HeapStore};
pub use holder::{Taken, Work, measure};
#[cfg(feature = "rivals")]
pub use jemalloc::Jemalloc;
pub use kept::{Kept, draw};
#[cfg(feature = "rivals")]
pub use mimalloc::Mimalloc;
pub use pool::PoolStore;
pub use serve::serve;
pub use slots::SlotStore;

use std::time::Duration;

use clap::ValueEnum;
use zram::{Compaction, CompactionStat};

use crate::Error;

/// The time to wait for memory to settle after work that freed some. `UZRAM_BENCH_SETTLE` sets
/// another time in milliseconds; tests, which check only that figures are reported, wait less.
const SETTLE: Duration = Duration::from_secs(1);

/// Waits for memory to settle after work that freed some. Compaction continues during this time.
pub fn settle() {
    let asked = std::env::var("UZRAM_BENCH_SETTLE").ok().and_then(|text| text.parse().ok());
    std::thread::sleep(asked.map_or(SETTLE, Duration::from_millis));
}

/// A store of byte strings by slot.
pub trait Store {
    /// Stores `bytes`, at least one, in `slot`, and then frees the previous contents.
    fn store(&mut self, slot: u32, bytes: &[u8]) -> Result<(), Error>;

    /// Frees the contents of `slot`.
    fn drop_slot(&mut self, slot: u32) -> Result<(), Error>;

    /// Copies the contents of `slot` to the beginning of `out`, which is large enough. Returns
    /// their length.
    fn read(&self, slot: u32, out: &mut [u8]) -> Result<usize, Error>;

    /// Returns free memory to the system, if the store does not do so itself.
    fn purge(&mut self) -> Result<(), Error>;

    /// Returns all bytes that the store uses, including its table, if it counts them.
    fn counted(&self) -> Option<u64>;
}

/// A store that moves its objects.
pub trait Compacted: Store {
    /// Returns the bytes of pages in use.
    fn used(&self) -> u64;

    /// Returns the statistics of compaction since the store was created.
    fn compaction(&self) -> CompactionStat;

    /// Returns the number of reads that had to wait so far.
    fn read_waits(&self) -> u64;
}

/// The stores of byte strings that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// A uzram pool with numbered slots and background compaction.
    Slots,
    /// A uzram pool with handles, a table of the handles, and background compaction.
    Pool,
    /// The C library's malloc.
    Glibc,
    /// jemalloc.
    Jemalloc,
    /// mimalloc.
    Mimalloc,
}

impl StoreKind {
    /// The stores of uzram.
    pub const OURS: [StoreKind; 2] = [StoreKind::Slots, StoreKind::Pool];

    /// The rivals.
    pub const RIVALS: [StoreKind; 3] = [StoreKind::Glibc, StoreKind::Jemalloc, StoreKind::Mimalloc];

    /// The reason why a rival is missing.
    pub const ABSENT: &str = "bench was built without --features rivals";

    /// Returns the store's name in figures.
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Slots => "our slots",
            StoreKind::Pool => "our pool",
            StoreKind::Glibc => "glibc malloc",
            StoreKind::Jemalloc => "jemalloc",
            StoreKind::Mimalloc => "mimalloc",
        }
    }

    /// Returns the store's name as an argument.
    fn argument(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Returns true if the store was built in.
    pub fn is_here(self) -> bool {
        !matches!(self, StoreKind::Jemalloc | StoreKind::Mimalloc) || cfg!(feature = "rivals")
    }

    /// Creates an empty store of `slots` slots.
    pub fn make(self, slots: u32) -> Result<Box<dyn Store>, Error> {
        match self {
            StoreKind::Slots => Ok(Box::new(SlotStore::new(slots, Compaction::Auto)?)),
            StoreKind::Pool => Ok(Box::new(PoolStore::new(slots, Compaction::Auto)?)),
            StoreKind::Glibc => Ok(Box::new(HeapStore::<Glibc>::new(slots))),
            #[cfg(feature = "rivals")]
            StoreKind::Jemalloc => Ok(Box::new(HeapStore::<Jemalloc>::new(slots))),
            #[cfg(feature = "rivals")]
            StoreKind::Mimalloc => Ok(Box::new(HeapStore::<Mimalloc>::new(slots))),
            #[cfg(not(feature = "rivals"))]
            StoreKind::Jemalloc | StoreKind::Mimalloc => Err(Error::Setup {
                reason: format!("{} is not here", self.name()),
                remedy: "build with --features rivals",
            }),
        }
    }
}

impl Store for Box<dyn Store> {
    fn store(&mut self, slot: u32, bytes: &[u8]) -> Result<(), Error> {
        (**self).store(slot, bytes)
    }

    fn drop_slot(&mut self, slot: u32) -> Result<(), Error> {
        (**self).drop_slot(slot)
    }

    fn read(&self, slot: u32, out: &mut [u8]) -> Result<usize, Error> {
        (**self).read(slot, out)
    }

    fn purge(&mut self) -> Result<(), Error> {
        (**self).purge()
    }

    fn counted(&self) -> Option<u64> {
        (**self).counted()
    }
}
