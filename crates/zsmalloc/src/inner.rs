//! A pool's inside: its entries, classes and memory, which of the classes are open, and how many
//! objects of each size there are.
//!
//! Lock order: entry, class, slab caches, space. Pages are given back with no lock held.
#![allow(unsafe_code)]

use crate::class::Class;
use crate::class_guard::ClassGuard;
use crate::geometry::GRAIN;
use crate::handle_slots::HandleSlots;
use crate::memory::{Memory, prefetch_whole};
use crate::meta::Arena;
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

/// What compaction has done so far, and whether it is at it.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    pub(crate) moved_objects: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) freed_pages: AtomicU64,
    pub(crate) spent_pages: AtomicU64,
    pub(crate) cpu_nanoseconds: AtomicU64,
    pub(crate) plans: AtomicU64,
    /// Whether a thread compacts.
    pub(crate) is_active: AtomicBool,
    /// Pages in use when all objects were last in the classes that the plan had for them, or fewer
    /// that were since.
    refined: AtomicUsize,
}

/// Pages of a pool that has grown.
#[derive(Debug)]
pub(crate) struct Grown(usize);

/// All there is of a pool.
pub(crate) struct PoolInner {
    entries: Table,
    /// Entries there can be.
    len: u64,
    /// Which of them are free, in a pool that gives out handles.
    pub(crate) handles: Option<Arc<HandleSlots>>,
    pub(crate) memory: Memory,
    pub(crate) classes: Box<[Class]>,
    geometry: Geometry,
    /// Position of the smallest class for sizes up to 8 bytes times the place here.
    by_size: Box<[u16]>,
    /// Which of the classes are open.
    pub(crate) plan: Plan,
    pub(crate) retained: Retained,
    pub(crate) compaction: Compaction,
    /// Compaction by itself.
    pub(crate) compactor: Arc<Worker>,
    /// Pages prefaulted, and given back, by themselves.
    pub(crate) prefaulter: Arc<Worker>,
    /// That of the process that made the pool, or repaired what lost threads left: see
    /// [`page::fork::generation`].
    pub(crate) generation: AtomicU32,
    /// Held while it does.
    pub(crate) repairing: Mutex<()>,
}

impl PoolInner {
    /// Returns a pool without pages, with up to `len` entries in the table that `entries` makes.
    pub(crate) fn new(
        config: Config,
        len: u64,
        handles: Option<Arc<HandleSlots>>,
        entries: impl FnOnce(&Arc<Arena>) -> Result<Table, Error>,
    ) -> Result<Self, Error> {
        let supply = config.pages.supply.clone();
        let arena = Arena::new(page::Config { supply, ..page::Config::default() })?;
        let entries = entries(&arena)?;
        page::fork::install()?;
        let table = config.geometry.table()?;
        let shapes = table.classes();
        let supply = config.pages.supply.clone();
        let supply = supply.as_deref();
        // All capacities are multiples of the grain, so the place of a size tells its class.
        let by_size = (0..table.largest() / GRAIN + 1)
            .map(|place| table.position((place * GRAIN).max(1)).unwrap_or(0) as u16);
        let whole = matches!(config.geometry, Geometry::Kernel(_));
        // Long zspages need no fine map; the kernel's have 1 to 16 pages.
        let granule = if whole { 1 } else { 16 };
        let pages = page::Config { granule, ..config.pages };
        let classes = shapes.iter().enumerate();
        let classes = classes.map(|(nth, &shape)| Class::new(nth as u32, shape, whole));
        let inner = PoolInner {
            entries,
            len,
            handles,
            by_size: boxed(supply, by_size)?,
            // In most models there is one class; nothing is to be planned.
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

    /// Returns the entries, whatever lost threads left there: [`crate::fork::Here`] is for others.
    ///
    /// # Safety
    /// That is repaired, or the caller does so and looks at no entry before, or looks at none.
    #[inline]
    pub(crate) unsafe fn entries_as_found(&self) -> &Table {
        &self.entries
    }

    /// Returns the size classes: calculated, since they are rarely asked for.
    pub(crate) fn table(&self) -> ClassTable {
        match self.geometry.table() {
            Ok(table) => table,
            Err(error) => unreachable!("a geometry that made a pool is refused: {error}"),
        }
    }

    /// Refuses the number of an entry that can't be there.
    #[inline]
    pub(crate) fn check_index(&self, index: u32) -> Result<(), Error> {
        let (index, len) = (index as u64, self.len);
        if index < len { Ok(()) } else { Err(Error::Index { index, len }) }
    }

    /// Returns whether this is a child of the process that made or repaired the pool.
    #[inline]
    pub(crate) fn is_in_child(&self) -> bool {
        self.generation.load(Acquire) != page::fork::generation()
    }

    /// Returns the largest object.
    pub(crate) fn largest(&self) -> usize {
        self.classes.last().map_or(0, Class::capacity)
    }

    /// Returns the smallest class for objects of `len` bytes, and the one that they are stored in:
    /// the smallest of the open ones.
    pub(crate) fn classes_of(&self, len: usize) -> Result<(&Class, &Class), Error> {
        let Some(&own) = self.by_size.get(len.div_ceil(GRAIN)).filter(|_| len > 0) else {
            return Err(Error::Size { size: len, max: self.largest() });
        };
        let open = self.plan.class_for[own as usize].load(Relaxed);
        Ok((&self.classes[own as usize], &self.classes[open as usize]))
    }

    /// Returns the class and the zspage of the object at `offset`.
    pub(crate) fn locate(&self, offset: u64) -> (&Class, ExtentId) {
        match self.memory.space.find(offset) {
            Some(id) => (self.class_of_zspage(id), id),
            None => unreachable!("I1: an entry names offset {offset:#x}, where no zspage is"),
        }
    }

    /// Returns the class of a zspage that stays.
    pub(crate) fn class_of_zspage(&self, id: ExtentId) -> &Class {
        &self.classes[self.memory.space.extent(id).tag() as usize]
    }

    /// Makes the processor fetch an object that is to be overwritten, and all on the way to its
    /// class; it may be gone.
    pub(crate) fn prefetch(&self, offset: u64, len: usize) {
        // The object first: the rest is looked up while the page table is walked for it.
        self.memory.prefetch(offset, len, policy::LINES_OVERWRITTEN);
        let extent = self.memory.space.find(offset).map(|id| self.memory.space.extent(id));
        let class = extent.and_then(|extent| self.classes.get(extent.tag() as usize));
        class.into_iter().for_each(prefetch_whole);
    }

    /// Locks a class of the pool.
    ///
    /// # Panics
    /// If it is another pool's.
    pub(crate) fn lock<'p>(&'p self, class: &'p Class) -> ClassGuard<'p> {
        self.expect_own(class);
        // SAFETY: class, memory and retained pages are this pool's.
        unsafe { ClassGuard::lock(class, &self.memory, &self.retained) }
    }

    /// The same, if no one has it locked.
    pub(crate) fn try_lock<'p>(&'p self, class: &'p Class) -> Option<ClassGuard<'p>> {
        self.expect_own(class);
        // SAFETY: as above.
        unsafe { ClassGuard::try_lock(class, &self.memory, &self.retained) }
    }

    #[inline]
    fn expect_own(&self, class: &Class) {
        assert!(self.classes.as_ptr_range().contains(&std::ptr::from_ref(class)), "{class:?}");
    }

    /// Returns the pages in use.
    pub(crate) fn used(&self) -> usize {
        self.memory.space.budget().used()
    }

    /// Returns whether the limit is near, with `others` pages more in use.
    pub(crate) fn is_near_limit(&self, others: usize) -> bool {
        policy::is_near(self.memory.space.budget().limit(), self.used() + others)
    }

    /// Returns whether one more page may be prefaulted, beside `others` that are not counted yet.
    pub(crate) fn may_prefault(&self, others: u32) -> bool {
        let (others, prefaulted) = (others as usize, self.retained.prefaulted());
        policy::may_prefault(self.used(), prefaulted + others, self.plan.open())
            && !self.is_near_limit(others)
    }

    /// Returns whether objects are stored in a class.
    pub(crate) fn is_open(&self, class: &Class) -> bool {
        self.plan.is_open(class.position as usize)
    }

    /// Chooses the open classes anew.
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

    /// Notes in each class which objects go there.
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

    /// Returns whether the pool has grown so far, since it was refined, that objects lie in coarser
    /// classes than the plan has for them now. For [`refined`](Self::refined), when they do no
    /// longer.
    pub(crate) fn has_grown(&self) -> Option<Grown> {
        let used = self.used();
        let refined = self.compaction.refined.fetch_min(used, Relaxed).min(used);
        let is_due = self.plan.is_remade() && policy::has_grown(used, refined);
        is_due.then_some(Grown(used))
    }

    pub(crate) fn refined(&self, grown: &Grown) {
        self.compaction.refined.store(grown.0, Relaxed);
    }

    /// Counts, for the plan, an object of one more length, or of one less, or both.
    pub(crate) fn count_len(&self, gone: Option<usize>, come: Option<usize>) {
        let own = |len: Option<usize>| Some(self.classes_of(len?).ok()?.0);
        let (gone, come) = (own(gone), own(come));
        if gone.map(|class| class.position) != come.map(|class| class.position) {
            gone.inspect(|class| class.shrink_population());
            come.inspect(|class| class.grow_population());
        }
    }

    /// Returns the bytes of memory that manage the pool: maps and descriptors of pages, headers,
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
