//! The parts of a pool: entries, classes and memory, the set of open classes, and the number of
//! objects of each size.
//!
//! The lock order is entry, class, slab caches, space. Pages are released with no lock held.
#![allow(unsafe_code)]

use crate::class::Class;
use crate::class_guard::ClassGuard;
use crate::geometry::GRAIN;
use crate::handle_slots::HandleSlots;
use crate::memory::{Memory, prefetch_whole};
use crate::meta::MetadataArena;
use crate::plan::{Plan, Purpose, Size};
use crate::policy;
use crate::retained::Retained;
use crate::sync::Ordering::{Acquire, Relaxed};
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Mutex};
use crate::table::Table;
use crate::worker::Worker;
use crate::{ClassTable, Config, Error, Geometry};
use page::ExtentId;
use page::heap::boxed;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The statistics of compaction, and whether it is running.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    pub(crate) moved_objects: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) freed_pages: AtomicU64,
    pub(crate) spent_pages: AtomicU64,
    pub(crate) cpu_nanoseconds: AtomicU64,
    pub(crate) plans: AtomicU64,
    pub(crate) is_active: AtomicBool,
    /// The number of pages in use when all objects were last moved to the plan's classes.
    /// `has_grown` lowers this number if fewer pages are in use later.
    refined: AtomicUsize,
}

/// The number of pages of a pool that has grown.
#[derive(Debug)]
pub(crate) struct Grown(usize);

pub(crate) struct PoolInner {
    entries: Table,
    /// The maximum number of entries.
    len: u64,
    /// The allocator of handle slots, if the pool has handles.
    pub(crate) handles: Option<Arc<HandleSlots>>,
    pub(crate) memory: Memory,
    pub(crate) classes: Box<[Class]>,
    geometry: Geometry,
    /// Maps `size / 8`, rounded up, to the position of the smallest class for the size.
    by_size: Box<[u16]>,
    pub(crate) plan: Plan,
    pub(crate) retained: Retained,
    pub(crate) compaction: Compaction,
    /// The thread that compacts in the background.
    pub(crate) compactor: Arc<Worker>,
    /// The thread that prefaults and releases pages in the background.
    pub(crate) prefaulter: Arc<Worker>,
    /// The generation of the process that created or last repaired the pool (see
    /// [`page::fork::generation`]).
    pub(crate) generation: AtomicU32,
    /// The lock that is held during the repair in a child of fork.
    pub(crate) repairing: Mutex<()>,
}

impl PoolInner {
    /// Returns a pool without pages, and with up to `len` entries. `entries` creates the table of
    /// entries.
    pub(crate) fn new(
        config: Config,
        len: u64,
        handles: Option<Arc<HandleSlots>>,
        entries: impl FnOnce(&Arc<MetadataArena>) -> Result<Table, Error>,
    ) -> Result<Self, Error> {
        let supply = config.pages.supply.clone();
        let arena = MetadataArena::new(page::Config { supply, ..page::Config::default() })?;
        let entries = entries(&arena)?;
        page::fork::install()?;
        let table = config.geometry.table()?;
        let shapes = table.classes();
        let supply = config.pages.supply.clone();
        let supply = supply.as_deref();
        // All capacities are multiples of the grain, so a size rounded up to the grain determines
        // its class.
        let by_size = (0..table.largest() / GRAIN + 1)
            .map(|place| table.position((place * GRAIN).max(1)).unwrap_or(0) as u16);
        let whole = matches!(config.geometry, Geometry::Kernel(_));
        // Native zspages are long, and allow large granules. The kernel's zspages have only 1 to 16
        // pages.
        let granule = if whole { 1 } else { 16 };
        let pages = page::Config { granule, ..config.pages };
        let classes = shapes.iter().enumerate();
        let classes = classes.map(|(nth, &shape)| Class::new(nth as u32, shape, whole));
        let inner = PoolInner {
            entries,
            len,
            handles,
            by_size: boxed(supply, by_size)?,
            // Most loom models have only one class, so their pools need no plan.
            plan: match whole || shapes.len() == 1 {
                true => Plan::of_all(shapes.len(), supply)?,
                false => Plan::new(shapes.len(), |position| shapes[position].size, supply)?,
            },
            classes: boxed(supply, classes)?,
            memory: Memory::new(pages, arena)?,
            geometry: config.geometry,
            retained: Retained::new(shapes.len(), supply)?,
            compaction: Compaction::default(),
            compactor: Arc::new(Worker::new("uzram-compact")),
            prefaulter: Arc::new(Worker::new("uzram-pages")),
            generation: AtomicU32::new(page::fork::generation()),
            repairing: Mutex::default(),
        };
        inner.note_plan();
        Ok(inner)
    }

    /// Returns the entries, which a child of fork might not have repaired yet. Code that needs
    /// repaired entries uses [`crate::fork::RepairedPool`].
    ///
    /// # Safety
    /// The entries are repaired, or the caller repairs them before it reads an entry, or the caller
    /// reads no entry.
    #[inline]
    pub(crate) unsafe fn entries_as_found(&self) -> &Table {
        &self.entries
    }

    /// Calculates the size classes and returns them. The size classes are not stored, because they
    /// are rarely needed.
    pub(crate) fn table(&self) -> ClassTable {
        match self.geometry.table() {
            Ok(table) => table,
            Err(error) => unreachable!("a geometry that made a pool is refused: {error}"),
        }
    }

    /// Returns an error if `index` is not the number of an entry.
    #[inline]
    pub(crate) fn check_index(&self, index: u32) -> Result<(), Error> {
        let (index, len) = (index as u64, self.len);
        if index < len { Ok(()) } else { Err(Error::Index { index, len }) }
    }

    /// Returns whether an ancestor of this process created or last repaired the pool.
    #[inline]
    pub(crate) fn is_in_child(&self) -> bool {
        self.generation.load(Acquire) != page::fork::generation()
    }

    pub(crate) fn largest(&self) -> usize {
        self.classes.last().map_or(0, Class::capacity)
    }

    /// Returns the smallest class for objects of `len` bytes, and the smallest open class for such
    /// objects. The objects are stored in the open class.
    pub(crate) fn classes_of(&self, len: usize) -> Result<(&Class, &Class), Error> {
        let Some(&own) = self.by_size.get(len.div_ceil(GRAIN)).filter(|_| len > 0) else {
            return Err(Error::Size { size: len, max: self.largest() });
        };
        let open = self.plan.class_for[own as usize].load(Relaxed);
        Ok((&self.classes[own as usize], &self.classes[open as usize]))
    }

    pub(crate) fn locate(&self, offset: u64) -> (&Class, ExtentId) {
        match self.memory.space.find(offset) {
            Some(id) => (self.class_of_zspage(id), id),
            None => unreachable!("I1: an entry names offset {offset:#x}, where no zspage is"),
        }
    }

    /// Returns the class of a zspage. The caller ensures that the zspage is not freed.
    pub(crate) fn class_of_zspage(&self, id: ExtentId) -> &Class {
        &self.classes[self.memory.space.extent(id).tag() as usize]
    }

    /// Prefetches an object that is to be overwritten, and its class, into the processor's caches.
    /// The object may have been freed already.
    pub(crate) fn prefetch(&self, offset: u64, len: usize) {
        // The object is prefetched first, so that its page table walk overlaps with the look-up of
        // the class.
        self.memory.prefetch(offset, len, policy::LINES_OVERWRITTEN);
        let extent = self.memory.space.find(offset).map(|id| self.memory.space.extent(id));
        let class = extent.and_then(|extent| self.classes.get(extent.tag() as usize));
        class.into_iter().for_each(prefetch_whole);
    }

    /// Locks a class of the pool.
    ///
    /// # Panics
    /// Panics if the class belongs to another pool.
    pub(crate) fn lock<'p>(&'p self, class: &'p Class) -> ClassGuard<'p> {
        self.expect_own(class);
        // SAFETY: class, memory and retained pages belong to this pool.
        unsafe { ClassGuard::new(class, &self.memory, &self.retained, class.state.lock()) }
    }

    /// Locks a class of the pool if it is unlocked. Never waits.
    pub(crate) fn try_lock<'p>(&'p self, class: &'p Class) -> Option<ClassGuard<'p>> {
        self.expect_own(class);
        let state = class.state.try_lock()?;
        // SAFETY: class, memory and retained pages belong to this pool.
        Some(unsafe { ClassGuard::new(class, &self.memory, &self.retained, state) })
    }

    #[inline]
    fn expect_own(&self, class: &Class) {
        assert!(self.classes.as_ptr_range().contains(&std::ptr::from_ref(class)), "{class:?}");
    }

    pub(crate) fn used(&self) -> usize {
        self.memory.space.budget().used()
    }

    /// Returns whether the pool would be near its limit if `others` more pages were in use.
    pub(crate) fn is_near_limit(&self, others: usize) -> bool {
        policy::is_near(self.memory.space.budget().limit(), self.used() + others)
    }

    /// Returns whether the pool is allowed to prefault a page in addition to `others` pages, which
    /// are not counted yet.
    pub(crate) fn may_prefault(&self, others: u32) -> bool {
        let (others, prefaulted) = (others as usize, self.retained.prefaulted());
        policy::may_prefault(self.used(), prefaulted + others, self.plan.open())
            && !self.is_near_limit(others)
    }

    /// Returns whether new objects are stored in a class.
    pub(crate) fn is_open(&self, class: &Class) -> bool {
        self.plan.is_open(class.position as usize)
    }

    /// Computes a new plan, which chooses the open classes.
    pub(crate) fn replan(&self, purpose: Purpose) {
        let size = |position: usize| {
            let class = &self.classes[position];
            Size {
                bytes: class.size(),
                population: class.population.load(Relaxed),
                is_used: class.state.lock().committed > 0,
            }
        };
        if self.plan.make(self.used(), purpose, size, || self.note_plan()) {
            self.compaction.plans.fetch_add(1, Relaxed);
        }
    }

    /// Records in each class the sizes of the objects that the plan assigns to it.
    fn note_plan(&self) {
        let mut least = 1;
        for class in &self.classes {
            if self.is_open(class) {
                class.set_min_len(least);
                least = class.capacity() + 1;
            } else {
                class.set_min_len(class.capacity() + 1);
            }
        }
    }

    /// Returns the pool's size if the pool has grown enough since its objects were last moved to
    /// the plan's classes. After the caller has moved the objects again, it passes the result to
    /// [`refined`](Self::refined).
    pub(crate) fn has_grown(&self) -> Option<Grown> {
        let used = self.used();
        let refined = self.compaction.refined.fetch_min(used, Relaxed).min(used);
        let is_due = self.plan.is_remade() && policy::has_grown(used, refined);
        is_due.then_some(Grown(used))
    }

    pub(crate) fn refined(&self, grown: &Grown) {
        self.compaction.refined.store(grown.0, Relaxed);
    }

    /// Updates the populations of classes after an object of length `gone` was removed and an
    /// object of length `come` was added.
    pub(crate) fn count_len(&self, gone: Option<usize>, come: Option<usize>) {
        let own = |len: Option<usize>| Some(self.classes_of(len?).ok()?.0);
        let (gone, come) = (own(gone), own(come));
        if gone.map(|class| class.position) != come.map(|class| class.position) {
            gone.inspect(|class| class.shrink_population());
            come.inspect(|class| class.grow_population());
        }
    }

    /// Returns the number of bytes of the pool's metadata: maps and descriptors of pages, headers,
    /// classes and entries.
    pub(crate) fn metadata_bytes(&self) -> usize {
        let handles = self.handles.as_ref().map_or(0, |handles| handles.bytes());
        let entries = self.entries.bytes() + handles;
        let classes = size_of_val(&*self.classes) + size_of_val(&*self.by_size);
        let kept = classes + self.retained.bytes() + self.plan.bytes();
        self.memory.metadata_bytes() + kept + entries
    }
}

impl fmt::Debug for PoolInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolInner").field("memory", &self.memory).finish_non_exhaustive()
    }
}
