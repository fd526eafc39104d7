//! What lies below the words: classes and memory, and how slots are taken and given back.
//!
//! Lock order: class, slab caches, space. Pages are given back with no lock held.

use crate::background::Background;
use crate::class::{Class, GROUPS};
use crate::geometry::GRAIN;
use crate::locked::{Locked, Search};
use crate::memory::Memory;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicUsize, Backoff, Mutex};
use crate::{ClassTable, Config, Error, Geometry};
use page::{ExtentId, Request, Supply};
use slab::Arena;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Pages ready at any fill: commits are dear, so a few pages are kept for the next objects.
const READY_MIN: usize = 64;

/// Pages given back at least when the limit is met.
const TRIM: usize = 64;
/// How often a refused slot is tried for again, after pages were given back.
const ATTEMPTS: usize = 100;

/// The parts below the owner.
pub(crate) struct Parts {
    pub(crate) memory: Memory,
    pub(crate) classes: Box<[Class]>,
    pub(crate) table: ClassTable,
    /// Position of the class for sizes up to 8 bytes times the place here.
    pub(crate) by_size: Box<[u16]>,
    /// Pages committed that no live object touches.
    pub(crate) ready: AtomicUsize,
    /// Threads that give pages back at the moment.
    pub(crate) releases: AtomicUsize,
    /// Pages that compaction freed so far.
    pub(crate) compacted: AtomicU64,
    /// Whether a thread compacts.
    pub(crate) compacting: AtomicBool,
    /// Compaction by itself.
    pub(crate) background: Arc<Background>,
    /// Whether this is a child that has not mended what lost threads left.
    pub(crate) lost_threads: AtomicBool,
    /// Held while it does.
    pub(crate) mending: Mutex<()>,
}

impl Parts {
    pub(crate) fn new(config: Config, arena: Arc<Arena>) -> Result<Self, Error> {
        let table = config.geometry.table()?;
        let supply = config.pages.supply.clone();
        let supply = supply.as_deref();
        // All capacities are multiples of the grain, so the place of a size tells its class.
        let by_size = (0..table.largest() / GRAIN + 1)
            .map(|place| Ok(table.position((place * GRAIN).max(1)).unwrap_or(0) as u16));
        let by_size = table_of(supply, by_size)?;
        let whole = matches!(config.geometry, Geometry::Kernel(_));
        // Long zspages need no fine map; the kernel's have 1 to 16 pages.
        let granule = if whole { 1 } else { 16 };
        let pages = page::Config { granule, ..config.pages };
        let classes = table.classes().iter().enumerate();
        let classes = classes.map(|(nth, &shape)| Ok(Class::new(nth as u32, shape, whole)));
        Ok(Parts {
            classes: table_of(supply, classes)?,
            memory: Memory::new(pages, arena)?,
            by_size,
            table,
            ready: AtomicUsize::new(0),
            releases: AtomicUsize::new(0),
            compacted: AtomicU64::new(0),
            compacting: AtomicBool::new(false),
            background: Arc::default(),
            lost_threads: AtomicBool::new(false),
            mending: Mutex::default(),
        })
    }

    fn class_of(&self, len: usize) -> Result<&Class, Error> {
        match self.by_size.get(len.div_ceil(GRAIN)).filter(|_| len > 0) {
            Some(&class) => Ok(&self.classes[class as usize]),
            None => Err(Error::Size { size: len, max: self.table.largest() }),
        }
    }

    /// Whether more pages are ready than the pool may keep: 64, or 0.1% of what is committed; none in the
    /// kernel's geometry, which gives an empty zspage back at once.
    pub(crate) fn ready_excess(&self, class: &Class) -> bool {
        let kept = READY_MIN.max(self.memory.space.budget().used() / 1000);
        let kept = if class.whole { 0 } else { kept };
        self.ready.load(Relaxed) > kept
    }

    /// Takes a slot for `len` bytes. At the limit, slots on committed pages are tried, then pages kept
    /// ready are given back, or those waited for that another thread gives back.
    pub(crate) fn alloc(&self, len: usize, owner: u32) -> Result<u64, Error> {
        let class = self.class_of(len)?;
        let mut backoff = Backoff::default();
        let mut refusals = 0;
        while refusals < ATTEMPTS {
            let mut locked = Locked::new(self, class);
            match locked.take(owner, Search::Lowest) {
                Ok(Some(offset)) => return Ok(offset),
                Ok(None) => {
                    drop(locked);
                    let id = self.memory.create(class)?;
                    Locked::new(self, class).insert(id);
                    continue;
                }
                Err(_) => {}
            }
            if let Some(offset) = locked.take(owner, Search::Committed)? {
                return Ok(offset);
            }
            drop(locked);
            refusals += 1;
            let others_release = self.releases.load(Relaxed) > 0;
            if self.trim(TRIM) == 0 {
                if !others_release {
                    break;
                }
                backoff.wait();
            }
        }
        Locked::new(self, class).destroy_one_unused();
        let budget = self.memory.space.budget();
        let limit = budget.limit().unwrap_or(usize::MAX);
        let wanted = class.pages_for(0).len();
        Err(page::Error::Limit { limit, used: budget.used(), wanted }.into())
    }

    pub(crate) fn free(&self, offset: u64) {
        let class = self.class_at(offset);
        match self.memory.space.find(offset) {
            Some(id) => {
                if Locked::new(self, class).give(id, offset) {
                    self.background.ask();
                }
            }
            None => unreachable!("a word named offset {offset:#x}, where no zspage is"),
        }
    }

    /// The class of the object at `offset`.
    pub(crate) fn class_at(&self, offset: u64) -> &Class {
        match self.memory.space.find(offset) {
            Some(id) => &self.classes[self.memory.space.extent(id).tag() as usize],
            None => unreachable!("a word named offset {offset:#x}, where no zspage is"),
        }
    }

    /// Gives ready pages back, `wanted` or a few more; how many.
    pub(crate) fn trim(&self, wanted: usize) -> usize {
        let mut total = 0;
        for class in &self.classes {
            // A batch at a time is noted under the lock, and given back one by one.
            let mut batch = [None; 32];
            while total < wanted
                && self.ready.load(Relaxed) > 0
                && self.note_ready(class, &mut batch)
            {
                let before = total;
                for id in batch.iter().flatten().copied() {
                    let locked = Locked::new(self, class);
                    if total < wanted && locked.has_ready(id) {
                        total += locked.release(id) as usize;
                    }
                }
                if total == before {
                    break;
                }
            }
        }
        total
    }

    /// Notes zspages with ready pages; whether there is one.
    fn note_ready(&self, class: &Class, batch: &mut [Option<ExtentId>]) -> bool {
        let locked = Locked::new(self, class);
        batch.fill(None);
        if locked.state.ready == 0 {
            return false;
        }
        let found = (0..GROUPS).flat_map(|group| locked.group(group));
        let found = found.filter(|&id| locked.has_ready(id));
        batch.iter_mut().zip(found).for_each(|(place, id)| *place = Some(id));
        batch[0].is_some()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// A table of fixed length, made where its memory is granted.
pub(crate) fn table_of<T>(
    supply: Option<&dyn Supply>,
    items: impl ExactSizeIterator<Item = Result<T, Error>>,
) -> Result<Box<[T]>, Error> {
    let bytes = items.len() * size_of::<T>();
    let refused = Error::Pages(page::Error::Mapping { bytes });
    let mut table = Vec::new();
    let granted = supply.is_none_or(|supply| supply.grant(Request::Map { bytes }));
    if !granted || table.try_reserve_exact(items.len()).is_err() {
        return Err(refused);
    }
    for item in items {
        table.push(item?);
    }
    Ok(table.into_boxed_slice())
}
