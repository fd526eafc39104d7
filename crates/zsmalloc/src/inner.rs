//! What lies below the entries: classes and memory, and how slots are taken and given back.
//!
//! Lock order: class, slab caches, space. Pages are given back with no lock held.

use crate::class::Class;
use crate::class_guard::{ClassGuard, SCAN_FEW, SCAN_MAX, Search, Taken};
use crate::compact::CompactionCounters;
use crate::geometry::GRAIN;
use crate::memory::{Memory, prefetch_whole};
use crate::meta::Arena;
use crate::plan::{Plan, Purpose, Size};
use crate::prefault::Wanted;
use crate::retained::Offers;
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Backoff, Mutex};
use crate::worker::Worker;
use crate::zspage::HeaderPtr;
use crate::{ClassTable, Config, Error, Geometry};
use page::heap::boxed;
use page::{Extent, ExtentId};
use std::fmt;
use std::sync::Arc;

/// The limit is near when so many pages are left.
pub(crate) const NEAR_LIMIT: usize = 64;
/// Pages given back, or a few more, for a store that meets the limit: enough for some stores, and
/// it waits for them.
const TRIM: usize = 16;
/// How often a refused slot is tried for again, after pages were given back.
const ATTEMPTS: usize = 100;

/// Objects that lie in too coarse a class are looked for when the pool has grown by this part ...
const GROWN_SHARE: usize = 4;
/// ... and by this many pages: where there are fewer, little is gained.
const GROWN_MIN: usize = 64;

/// Pages of a pool that has grown.
#[derive(Debug)]
pub(crate) struct Grown(usize);

/// The pool below its entries.
pub(crate) struct PoolInner {
    pub(crate) memory: Memory,
    pub(crate) classes: Box<[Class]>,
    geometry: Geometry,
    /// Position of the smallest class for sizes up to 8 bytes times the place here.
    by_size: Box<[u16]>,
    /// Which of them are open; `None` where all are.
    plan: Option<Plan>,
    /// Pages committed that no live object touches.
    pub(crate) retained: AtomicUsize,
    /// Of them, those that were prefaulted, about.
    pub(crate) prefaulted: AtomicUsize,
    /// Which classes have zspages that offer retained pages.
    pub(crate) offers: Offers,
    /// Threads that give pages back, or prefault some, at the moment.
    pub(crate) releases: AtomicUsize,
    /// Pages given back or prefaulted so far, for whoever looks whether there were any meanwhile.
    pub(crate) released: AtomicUsize,
    /// Whether a thread sees to what is retained.
    pub(crate) tending: AtomicBool,
    /// Pages in use when all objects were last in the classes that the plan had for them, or fewer
    /// that were since.
    refined: AtomicUsize,
    /// What compaction did so far.
    pub(crate) compaction: CompactionCounters,
    /// Whether a thread compacts.
    pub(crate) compacting: AtomicBool,
    /// Compaction by itself.
    pub(crate) compactor: Arc<Worker>,
    /// Pages prefaulted, and given back, by themselves; and which are wanted.
    pub(crate) prefaulter: Arc<Worker>,
    pub(crate) wanted: Wanted,
    /// That of the process that made the pool, or repaired what lost threads left: see
    /// [`page::fork::generation`].
    pub(crate) generation: AtomicU32,
    /// Held while it does.
    pub(crate) repairing: Mutex<()>,
}

impl PoolInner {
    pub(crate) fn new(config: Config, arena: Arc<Arena>) -> Result<Self, Error> {
        page::fork::install()?;
        let table = config.geometry.table()?;
        let supply = config.pages.supply.clone();
        let supply = supply.as_deref();
        // All capacities are multiples of the grain, so the place of a size tells its class.
        let by_size = (0..table.largest() / GRAIN + 1)
            .map(|place| table.position((place * GRAIN).max(1)).unwrap_or(0) as u16);
        let by_size = boxed(supply, by_size)?;
        let whole = matches!(config.geometry, Geometry::Kernel(_));
        // Long zspages need no fine map; the kernel's have 1 to 16 pages.
        let granule = if whole { 1 } else { 16 };
        let pages = page::Config { granule, ..config.pages };
        // In most models there is one class; nothing is to be planned.
        let plans = !whole && table.classes().len() > 1;
        let size = |position: usize| table.classes()[position].size;
        let plan = plans.then(|| Plan::new(table.classes().len(), size, supply)).transpose()?;
        let classes = table.classes().iter().enumerate();
        let classes = classes.map(|(nth, &shape)| Class::new(nth as u32, shape, whole));
        let inner = PoolInner {
            classes: boxed(supply, classes)?,
            memory: Memory::new(pages, arena)?,
            by_size,
            plan,
            geometry: config.geometry,
            retained: AtomicUsize::new(0),
            prefaulted: AtomicUsize::new(0),
            offers: Offers::new(table.classes().len(), supply)?,
            releases: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
            tending: AtomicBool::new(false),
            refined: AtomicUsize::new(0),
            compaction: CompactionCounters::default(),
            compacting: AtomicBool::new(false),
            compactor: Arc::new(Worker::new("uzram-compact")),
            prefaulter: Arc::new(Worker::new("uzram-pages")),
            wanted: Wanted::new(table.classes().len(), supply)?,
            generation: AtomicU32::new(page::fork::generation()),
            repairing: Mutex::default(),
        };
        inner.note_plan();
        Ok(inner)
    }

    /// The size classes: calculated, since they are rarely asked for.
    pub(crate) fn table(&self) -> ClassTable {
        match self.geometry.table() {
            Ok(table) => table,
            Err(error) => unreachable!("the pool was made of it: {error}"),
        }
    }

    /// The largest object.
    pub(crate) fn largest(&self) -> usize {
        self.classes.last().map_or(0, Class::capacity)
    }

    /// The smallest class for objects of `len` bytes.
    fn own_class(&self, len: usize) -> Result<&Class, Error> {
        match self.by_size.get(len.div_ceil(GRAIN)).filter(|_| len > 0) {
            Some(&class) => Ok(&self.classes[class as usize]),
            None => Err(Error::Size { size: len, max: self.largest() }),
        }
    }

    /// The class that objects of `len` bytes are stored in: of the open ones.
    pub(crate) fn class_of(&self, len: usize) -> Result<&Class, Error> {
        Ok(self.open_class(self.own_class(len)?))
    }

    /// The open class for objects whose smallest class is `own`.
    fn open_class<'p>(&'p self, own: &'p Class) -> &'p Class {
        let open = |plan: &Plan| &self.classes[plan.class_for(own.position as usize)];
        self.plan.as_ref().map_or(own, open)
    }

    /// How many classes objects are stored in.
    pub(crate) fn open_classes(&self) -> usize {
        self.plan.as_ref().map_or(self.classes.len(), Plan::open)
    }

    /// Whether objects are stored in a class.
    pub(crate) fn is_open(&self, class: &Class) -> bool {
        self.plan.as_ref().is_none_or(|plan| plan.is_open(class.position as usize))
    }

    /// Whether the pool has shrunk so far that fewer classes would do.
    pub(crate) fn is_plan_too_large(&self) -> bool {
        let used = self.memory.space.budget().used();
        self.plan.as_ref().is_some_and(|plan| plan.is_too_large(used))
    }

    /// Chooses the open classes anew.
    pub(crate) fn replan(&self, purpose: Purpose) {
        let Some(plan) = &self.plan else { return };
        let size = |position: usize| {
            let class = &self.classes[position];
            Size {
                bytes: class.size(),
                population: class.population.load(Relaxed),
                is_used: class.state.lock().committed > 0,
            }
        };
        let used = self.memory.space.budget().used();
        if plan.make(used, purpose, size, || self.note_plan()) {
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

    /// Whether the pool has grown so far, since it was settled, that objects lie in coarser classes
    /// than the plan has for them now. For [`refined`](Self::refined), when they do no longer.
    pub(crate) fn has_grown(&self) -> Option<Grown> {
        let used = self.memory.space.budget().used();
        let settled = self.refined.fetch_min(used, Relaxed).min(used);
        let is_due = self.plan.is_some() && used - settled > (settled / GROWN_SHARE).max(GROWN_MIN);
        is_due.then_some(Grown(used))
    }

    pub(crate) fn refined(&self, grown: &Grown) {
        self.refined.store(grown.0, Relaxed);
    }

    /// Bytes of memory of the tables here.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.classes)
            + size_of_val(&*self.by_size)
            + self.wanted.bytes()
            + self.offers.bytes()
            + self.plan.as_ref().map_or(0, Plan::bytes)
    }

    /// Holds the plan still over a fork, before the classes.
    pub(crate) fn lock_plan_for_fork(&self) {
        self.plan.iter().for_each(Plan::lock_for_fork);
    }

    pub(crate) fn unlock_plan_after_fork(&self) {
        self.plan.iter().for_each(Plan::unlock_after_fork);
    }

    /// Asserts the plan's state, and that the populations are those of objects of `lens` bytes.
    pub(crate) fn check_plan(&self, lens: &[usize]) {
        self.plan.iter().for_each(Plan::check);
        let mut least = 1;
        for class in &self.classes {
            let noted = [least - 1, least, class.capacity()].map(|len| class.takes(len));
            assert_eq!(noted, [false, self.is_open(class), self.is_open(class)], "{class:?}");
            least = if self.is_open(class) { class.capacity() + 1 } else { least };
        }
        let mut populations = vec![0; self.classes.len()];
        for &len in lens {
            populations[self.own_class(len).map_or(0, |class| class.position as usize)] += 1;
        }
        let counted = self.classes.iter().map(|class| class.population.load(Relaxed));
        assert!(counted.eq(populations), "populations");
    }

    /// Takes a slot for `len` bytes.
    pub(crate) fn alloc(&self, len: usize, entry: u32) -> Result<u64, Error> {
        let own = self.own_class(len)?;
        let class = self.open_class(own);
        let taken = self.take(class, entry)?;
        own.grow_population();
        if taken.wants_page {
            self.request_page(class);
        }
        if taken.spent > 0 {
            let used = self.memory.space.budget().used();
            if self.plan.as_ref().is_some_and(|plan| plan.is_outgrown(used)) {
                self.replan(Purpose::Growth);
                if self.has_grown().is_some() {
                    self.compactor.notify();
                }
            }
        }
        Ok(taken.offset)
    }

    /// At the limit, slots on committed pages are tried, then pages retained are given back, or
    /// those waited for that another thread gives back.
    fn take(&self, class: &Class, entry: u32) -> Result<Taken, Error> {
        let mut backoff = Backoff::default();
        let mut refusals = 0;
        loop {
            let released = self.released.load(SeqCst);
            let mut locked = ClassGuard::new(self, class);
            let refused = match locked.alloc_slot(entry, Search::Lowest) {
                Ok(Some(taken)) => return Ok(taken),
                Ok(None) => {
                    drop(locked);
                    match self.memory.create(class) {
                        Ok(zspage) => {
                            ClassGuard::new(self, class).insert(zspage);
                            continue;
                        }
                        // Who refuses what manages it may count retained pages too.
                        Err(refused) => refused,
                    }
                }
                Err(refused) => match locked.alloc_slot(entry, Search::Committed(SCAN_FEW))? {
                    Some(taken) => return Ok(taken),
                    None => {
                        drop(locked);
                        refused
                    }
                },
            };
            refusals += 1;
            let trimmed = self.purge(TRIM) > 0;
            // After the look for pages: whoever had some of them is at it still, or they came since
            // the slot was refused.
            let others_release =
                self.releases.load(SeqCst) > 0 || self.released.load(SeqCst) != released;
            if refusals == ATTEMPTS || !(trimmed || others_release) {
                let mut locked = ClassGuard::new(self, class);
                let last = locked.alloc_slot(entry, Search::Committed(SCAN_MAX))?;
                locked.destroy_one_unused();
                return last.ok_or(refused);
            }
            if !trimmed {
                backoff.wait();
            }
        }
    }

    /// Frees an object that no entry names any more.
    pub(crate) fn free(&self, offset: u64, len: usize) {
        let (id, extent) = self.zspage_at(offset);
        self.changed_len(Some(len), None);
        let locked = ClassGuard::new(self, &self.classes[extent.tag() as usize]);
        if locked.free_object(id, offset - extent.start()) {
            self.compactor.notify();
        }
    }

    fn zspage_at(&self, offset: u64) -> (ExtentId, &Extent<HeaderPtr>) {
        match self.memory.space.find(offset) {
            Some(id) => (id, self.memory.space.extent(id)),
            None => unreachable!("an entry named offset {offset:#x}, where no zspage is"),
        }
    }

    /// Has the processor fetch an object that is to be overwritten, and all on the way to its
    /// class; it may be gone.
    pub(crate) fn prefetch(&self, offset: u64, len: usize) {
        // The object first: the rest is looked up while the page table is walked for it.
        self.memory.prefetch(offset, len);
        let extent = self.memory.space.find(offset).map(|id| self.memory.space.extent(id));
        let class = extent.and_then(|extent| self.classes.get(extent.tag() as usize));
        class.into_iter().for_each(prefetch_whole);
    }

    /// Takes note of an object that is gone, or there, or has another length: for the plan.
    pub(crate) fn changed_len(&self, from: Option<usize>, to: Option<usize>) {
        let place = |len: usize| len.div_ceil(GRAIN);
        if from.map(place) == to.map(place) {
            return;
        }
        let class = |len: Option<usize>| self.own_class(len?).ok();
        let (from, to) = (class(from), class(to));
        if from.map(|class| class.position) != to.map(|class| class.position) {
            from.inspect(|class| class.shrink_population());
            to.inspect(|class| class.grow_population());
        }
    }

    /// The class of the object at `offset`.
    pub(crate) fn class_at(&self, offset: u64) -> &Class {
        &self.classes[self.zspage_at(offset).1.tag() as usize]
    }
}

impl fmt::Debug for PoolInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolInner").field("memory", &self.memory).finish_non_exhaustive()
    }
}
