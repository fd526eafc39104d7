//! The pool for general use: opaque handles to stored bytes.

use crate::fork::{RepairedPool, repaired_or_err, repaired_or_left_behind};
use crate::handle_slots::{HandleSlots, live_slots};
use crate::policy::LEAKS_SHOWN;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::table::{GENERATION_MAX, Row};
use crate::{
    Classes, CompactionStat, Config, Content, EntryPool, EntryReadGuard, EntryWriteGuard, Error,
};
use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;

/// The handle of a stored object. The object must be freed with [`Pool::free`], which consumes the
/// handle.
///
/// ```text
///   | 63 .. 52 pool | 51 .. 32 generation | 31 .. 0 slot |
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "an object without its handle can't be freed before its pool is dropped"]
pub struct Handle(NonZeroU64);

impl Handle {
    /// Returns the handle as a number, for C or for a table of the caller. To free the object,
    /// convert the number back with [`from_raw`](Self::from_raw). Otherwise the object exists until
    /// the pool is dropped.
    pub fn into_raw(self) -> u64 {
        self.0.get()
    }

    /// Returns a handle from its number. For a stale or invalid number, the pool's functions return
    /// an error.
    pub fn from_raw(raw: u64) -> Result<Self, Error> {
        NonZeroU64::new(raw).map(Handle).ok_or(Error::Handle { raw })
    }

    fn new(pool: u32, index: u32, generation: u32) -> Self {
        debug_assert!((1..=GENERATION_MAX).contains(&generation));
        let raw = (pool as u64) << 52 | (generation as u64) << 32 | index as u64;
        match NonZeroU64::new(raw) {
            Some(raw) => Handle(raw),
            None => unreachable!("a handle slot has generation 0, though generations begin at 1"),
        }
    }

    fn pool(&self) -> u32 {
        (self.0.get() >> 52) as u32
    }

    fn generation(&self) -> u32 {
        (self.0.get() >> 32) as u32 & GENERATION_MAX
    }

    fn index(&self) -> u32 {
        self.0.get() as u32
    }
}

/// A pool that stores objects and returns a handle for each.
///
/// After a fork, parent and child each have a pool with the same objects. However, if children do
/// not inherit the pages (see [`in_children`](page::Config::in_children)), the child's pool refuses
/// every operation with [`Error::LeftBehind`], and its statistics stay as they were at the fork.
///
/// ```
/// let pool = zsmalloc::Pool::new(zsmalloc::Config::default())?;
/// let handle = pool.store(b"some bytes")?;
/// assert_eq!(&*pool.read(&handle)?, b"some bytes");
/// pool.free(handle)?;
/// # Ok::<(), zsmalloc::Error>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    core: EntryPool,
    handles: Arc<HandleSlots>,
    id: u32,
}

impl Pool {
    /// Returns an empty pool, without pages.
    #[doc(alias = "zs_create_pool")]
    pub fn new(config: Config) -> Result<Self, Error> {
        static POOLS: AtomicU32 = AtomicU32::new(0);
        let nth = POOLS.fetch_add(1, Relaxed);
        // Pool numbers repeat after 4096 pools. A pool with a repeated number begins with other
        // generations, so that a handle of the earlier pool is unlikely to match.
        let (id, lap) = (nth & 0xfff, nth >> 12);
        let first = 1 + lap.wrapping_mul(0x9E37_79B1) % (GENERATION_MAX / 2);
        let handles = Arc::new(HandleSlots::new());
        let core = EntryPool::with_handles(config, handles.clone(), first)?;
        core.register();
        Ok(Pool { core, handles, id })
    }

    /// Enables two background threads, one that compacts and one that prefaults. The threads exist
    /// only while they have work, and end when the pool is dropped.
    pub fn compact_in_background(&self) {
        self.core.compact_in_background();
    }

    /// Stores `bytes`, which are at least 1 byte, and at most [`largest`](Self::largest) bytes.
    #[doc(alias = "zs_malloc")]
    pub fn store(&self, bytes: &[u8]) -> Result<Handle, Error> {
        let pool = repaired_or_err(self.core.inner())?;
        let (index, entry) = EntryWriteGuard::claim(pool, &self.handles)?;
        let staged = entry.stage(bytes)?;
        let handle = Handle::new(self.id, index, entry.row().generation());
        self.handles.mark_used(pool.entries(), index);
        entry.replace(staged, 0);
        Ok(handle)
    }

    /// Allocates an object of `len` zero bytes, which the caller can overwrite with
    /// [`write`](Self::write).
    pub fn malloc(&self, len: usize) -> Result<Handle, Error> {
        static ZEROS: [u8; 4096 << crate::ORDER_MAX] = [0; 4096 << crate::ORDER_MAX];
        match ZEROS.get(..len) {
            Some(zeros) => self.store(zeros),
            None => Err(Error::Size { size: len, max: self.largest() }),
        }
    }

    /// Overwrites the first bytes of the object with `bytes`. The object keeps its length. Waits
    /// for the object's readers.
    #[doc(alias = "zs_obj_write")]
    pub fn write(&self, handle: &Handle, bytes: &[u8]) -> Result<(), Error> {
        self.lock(repaired_or_err(self.core.inner())?, handle)?.patch(bytes)
    }

    /// Pins the object of `handle` and returns its bytes. The bytes are neither moved nor freed
    /// while the guard exists.
    #[doc(alias = "zs_obj_read_begin")]
    ///
    /// The guard also borrows the handle, because a thread that freed the object while it held the
    /// guard would wait forever. An object has at most six guards at a time. A seventh call waits
    /// until a guard is dropped.
    pub fn read<'a>(&'a self, handle: &'a Handle) -> Result<ReadGuard<'a>, Error> {
        let pin = self.core.read_if(handle.index(), |row| self.names(handle, row))?;
        match pin.content() {
            Content::Object { .. } => Ok(ReadGuard(pin)),
            Content::Inline(_) => Err(Error::Handle { raw: handle.0.get() }),
        }
    }

    /// Frees the object of `handle`.
    #[doc(alias = "zs_free")]
    pub fn free(&self, handle: Handle) -> Result<(), Error> {
        let pool = repaired_or_err(self.core.inner())?;
        let entry = self.lock(pool, &handle)?;
        let generation = entry.row().generation();
        entry.set_payload(0);
        self.handles.mark_free(pool.entries(), handle.index(), generation);
        Ok(())
    }

    fn lock<'p>(
        &self,
        pool: RepairedPool<'p>,
        handle: &Handle,
    ) -> Result<EntryWriteGuard<'p>, Error> {
        let admits = |row: Row<'_>| self.names(handle, row);
        let entry = EntryWriteGuard::lock_existing(pool, handle.index(), admits);
        let is_live =
            |entry: &EntryWriteGuard<'_>| matches!(entry.content(), Content::Object { .. });
        entry.filter(is_live).ok_or(Error::Handle { raw: handle.0.get() })
    }

    /// Returns whether `handle` belongs to this pool and matches its slot's generation.
    fn names(&self, handle: &Handle, row: Row<'_>) -> bool {
        handle.pool() == self.id && handle.generation() == row.generation()
    }

    /// Returns the number of stored objects.
    pub fn len(&self) -> u64 {
        self.handles.live(repaired_or_left_behind(self.core.inner()).entries())
    }

    /// Returns whether the pool holds no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the page budget, which holds the number of the pool's pages and their limit.
    #[doc(alias = "zs_get_total_pages")]
    pub fn pages(&self) -> &page::Budget {
        self.core.pages()
    }

    /// Returns the total size of the pool's memory in bytes.
    pub fn bytes(&self) -> usize {
        self.core.bytes()
    }

    /// Returns the size in bytes of the largest object that can be stored.
    pub fn largest(&self) -> usize {
        self.core.largest()
    }

    /// Returns the size classes, in which the caller can look up the class of a size and the size
    /// of huge objects.
    #[doc(alias = "zs_lookup_class_index")]
    #[doc(alias = "zs_huge_class_size")]
    pub fn table(&self) -> crate::ClassTable {
        self.core.table()
    }

    /// Moves objects together, releases retained pages, and returns the number of pages freed. If
    /// another thread is compacting, only releases retained pages.
    #[doc(alias = "zs_compact")]
    pub fn compact(&self) -> usize {
        self.core.compact()
    }

    /// Compacts as [`compact`](Self::compact) does, until at least `bytes` bytes were freed.
    /// Returns the number of pages freed.
    pub fn shrink(&self, bytes: usize) -> usize {
        self.core.shrink(bytes)
    }

    /// Returns the number of bytes that compaction could free if no object were pinned.
    pub fn freeable(&self) -> usize {
        self.core.freeable()
    }

    /// Returns the number of pages that compaction has freed so far.
    #[doc(alias = "zs_pool_stats")]
    pub fn pages_compacted(&self) -> u64 {
        self.core.pages_compacted()
    }

    /// Returns the statistics of compaction, with its processor time.
    pub fn compaction_stat(&self) -> CompactionStat {
        self.core.compaction_stat()
    }

    /// Frees the memory of free handle slots, if there are enough free handle slots. Returns the
    /// number of bytes freed.
    pub fn rebalance(&self) -> usize {
        self.core.rebalance(&mut || true)
    }

    /// Returns the number of reads that waited because the object was being written.
    pub fn read_waits(&self) -> u64 {
        self.core.read_waits()
    }

    /// Releases the pages that are retained for the next objects. Returns the number of pages
    /// released.
    pub fn trim(&self) -> usize {
        self.core.trim()
    }

    /// Returns the statistics of each class.
    pub fn classes(&self) -> Classes {
        self.core.classes()
    }

    /// Returns a report with the handles of the first eight stored objects, or `None` if no object
    /// is stored. A debug build prints the report when the pool is dropped.
    pub fn leak_report(&self) -> Option<String> {
        let count = Some(self.len()).filter(|&count| count > 0)?;
        let entries = repaired_or_left_behind(self.core.inner()).entries();
        let live = live_slots(entries, LEAKS_SHOWN).into_iter();
        let handles = live.map(|(index, generation)| Handle::new(self.id, index, generation));
        let raw: Vec<_> = handles.map(|handle| format!("{:#x}", handle.0)).collect();
        let more = if count > LEAKS_SHOWN as u64 { " ..." } else { "" };
        Some(format!("a pool with {count} objects: {}{more}", raw.join(" ")))
    }

    /// Asserts that the pool's whole state is consistent. No other thread is allowed to use the
    /// pool during the check.
    pub fn check(&self) {
        self.core.check();
    }
}

/// Ends the background threads. A debug build prints the handles of objects that were never freed.
/// The memory of these objects is freed with the pool.
impl Drop for Pool {
    fn drop(&mut self) {
        self.core.stop_background();
        // If the pool is left behind, the objects belong to the parent.
        let are_ours = !self.core.is_left_behind();
        if cfg!(debug_assertions) && are_ours && !std::thread::panicking() {
            self.leak_report().inspect(|report| eprintln!("zsmalloc: {report}"));
        }
    }
}

/// The pinned bytes of an object.
///
/// In a child of the process that pinned the bytes, the guard can only be dropped, and access
/// through the guard panics. The child must not use a slice from before the fork either.
#[derive(Debug)]
pub struct ReadGuard<'p>(EntryReadGuard<'p>);

impl Deref for ReadGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self.0.content() {
            Content::Object { bytes, .. } => bytes,
            Content::Inline(_) => &[],
        }
    }
}
