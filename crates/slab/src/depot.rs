//! What a cache is behind its magazines: slabs in lists, under one lock.
//!
//! ```text
//!   made --> partial <--> full            by how many of its objects are out
//!              ^ |
//!              | v
//!             free --more than 2, and more than 1/32--> unlinked --> reclaimed, at once or after a grace period
//! ```
//! Locks: threads' registry, `state`, then those of blocks and of the space. Slabs are made and reclaimed, and
//! constructors called, with no lock held.
//!
//! Invariants. C1: a slab is in the list that its count says. C2: `out` is the sum of the counts; each object that is
//! out is a user's, in one magazine, shared, in the reserve, or lost. C3: the reserve is filled before anything else
//! is given back.
//!
//! # Safety
//! - K1: pages of a slab are committed from before it is in a list until it is reclaimed, and it is only when no object
//!   is out. With `Memory::Stable` no guard that was pinned before is left by then either.
//! - K2: two objects never overlap: object n covers bytes n * stride to (n + 1) * stride from the first.
#![allow(unsafe_code)]

use crate::guard::Guard;
use crate::layout::Shape;
use crate::magazine::{Behind, Entry, Magazines, Tunables};
use crate::options::{Memory, Options};
use crate::slab::{Held, Slab};
use crate::sync::{AtomicU32, AtomicUsize, Mutex, MutexGuard, Relaxed};
use crate::thread::{Keeper, Number, number};
use crate::{Arena, Error, packed};
use page::{ExtentId, PageSet};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// Slabs that may be empty, and the share of all that may.
const EMPTY_MIN: usize = 2;
const EMPTY_SHARE: usize = 32;
/// Objects' places are computed with this many binary places: a place is below 2^20.
const PLACE_SHIFT: u32 = 40;

/// The list a slab is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Partial,
    Full,
    Free,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    heads: [Option<ExtentId>; 3],
    pub(crate) lens: [usize; 3],
    /// Objects that are out of their slabs.
    pub(crate) out: usize,
    pub(crate) shared: Vec<Entry>,
    pub(crate) reserve: Vec<Entry>,
    /// Objects that were written to when no one may; they stay out.
    pub(crate) lost: usize,
}

// SAFETY: entries are the cache's objects, which any thread may be given.
unsafe impl Send for State {}

impl State {
    pub(crate) fn slabs(&self) -> usize {
        self.lens.iter().sum()
    }
}

#[derive(Debug)]
pub(crate) struct Depot {
    pub(crate) arena: Arc<Arena>,
    pub(crate) options: Options,
    pub(crate) shape: Shape,
    pub(crate) guard: Option<Guard>,
    pub(crate) magazines: Magazines,
    pub(crate) state: Mutex<State>,
    /// Slabs that wait for a grace period.
    pub(crate) waiting: AtomicUsize,
    tag: u32,
    /// 2^40 / stride, rounded up.
    reciprocal: u64,
    colour: AtomicU32,
    blocks: packed::RawCache,
    me: Weak<Depot>,
}

impl Depot {
    pub(crate) fn new(
        arena: &Arc<Arena>,
        size: usize,
        align: usize,
        options: Options,
    ) -> Result<Arc<Self>, Error> {
        let plain = Shape::new(options.layout, size, align)?;
        let guard = Guard::new(size, align, &options);
        let shape = match &guard {
            Some(guard) => Shape::new(options.layout, guard.bytes(), align)?,
            None => plain,
        };
        let tunables = match (&guard, options.tunables) {
            (Some(_), _) => Tunables { limit: 0, batchcount: 0, shared: 0 },
            (None, Some(tunables)) => tunables.check()?,
            (None, None) => Tunables::suiting(shape.stride),
        };
        let depot = Depot {
            arena: arena.clone(),
            guard,
            magazines: Magazines::new(tunables),
            state: Mutex::default(),
            waiting: AtomicUsize::new(0),
            tag: arena.next_cache(),
            reciprocal: (1u64 << PLACE_SHIFT).div_ceil(shape.stride as u64),
            colour: AtomicU32::new(0),
            blocks: packed::RawCache::new(&arena.blocks, shape.block_bytes(), 8)?,
            me: Weak::new(),
            options,
            shape,
        };
        let depot = Arc::new_cyclic(|me| Depot { me: me.clone(), ..depot });
        depot.fill_reserve()?;
        Ok(depot)
    }

    /// A slab under the lock, which `_state` stands for.
    fn held(&self, _state: &State, id: ExtentId) -> Held<'_> {
        // SAFETY: the caller has the state, so it holds the lock; only slabs of this cache are in its lists.
        unsafe { Held::new(&self.arena.space.extent(id).data, &self.shape) }
    }

    /// Slab and number of an object's address.
    #[inline]
    pub(crate) fn locate(&self, object: NonNull<u8>) -> Result<(ExtentId, &Slab, usize), Error> {
        let address = object.addr().get();
        let foreign = Error::Foreign { address };
        let (id, extent) = self.arena.slab_at(object).ok_or(foreign)?;
        let first = extent.data.first().addr();
        let at = address.wrapping_sub(first);
        if extent.tag() != self.tag || first == 0 || at >= self.shape.objects * self.shape.stride {
            return Err(foreign);
        }
        let index = ((at as u64 * self.reciprocal) >> PLACE_SHIFT) as usize;
        if index * self.shape.stride != at { Err(foreign) } else { Ok((id, &extent.data, index)) }
    }

    #[inline]
    pub(crate) fn entry(&self, slab: &Slab, index: usize) -> Entry {
        // In the slab, as the index is below the number of objects.
        let object = slab.first().wrapping_add(index * self.shape.stride);
        let Some(object) = NonNull::new(object) else { unreachable!("a slab has a first object") };
        // SAFETY: the bits stay until the slab is reclaimed, and that is not while one of its objects is out (K1).
        unsafe { Entry::new(object, slab.live(index), (index % 64) as u32) }
    }

    /// Takes a slab out of its list.
    fn unlink(&self, state: &mut State, id: ExtentId, list: List) {
        let held = self.held(state, id);
        let (prev, next) = (held.prev(), held.next());
        match prev {
            Some(prev) => self.held(state, prev).set_next(next),
            None => state.heads[list as usize] = next,
        }
        if let Some(next) = next {
            self.held(state, next).set_prev(prev);
        }
        state.lens[list as usize] -= 1;
    }

    /// Puts a slab at the head of the list that its count says (C1).
    fn link(&self, state: &mut State, id: ExtentId) {
        let held = self.held(state, id);
        let list = self.list_of(held);
        let head = state.heads[list as usize];
        held.set_links(None, head);
        if let Some(head) = head {
            self.held(state, head).set_prev(Some(id));
        }
        state.heads[list as usize] = Some(id);
        state.lens[list as usize] += 1;
        held.slab.list.store(list as u32, Relaxed);
    }

    fn list_of(&self, held: Held<'_>) -> List {
        match held.active() {
            0 => List::Free,
            active if active == self.shape.objects => List::Full,
            _ => List::Partial,
        }
    }

    /// Puts a slab whose count has changed into the right list.
    fn relist(&self, state: &mut State, id: ExtentId) {
        let held = self.held(state, id);
        let lists = [List::Partial, List::Full, List::Free];
        let old = lists[held.slab.list.load(Relaxed) as usize];
        if old != self.list_of(held) {
            self.unlink(state, id, old);
            self.link(state, id);
        }
    }

    /// Gives up to `want` objects that there are; how many.
    fn hand_out(&self, state: &mut State, want: usize, give: &mut dyn FnMut(Entry)) -> usize {
        let keep = state.shared.len().saturating_sub(want);
        let mut given = state.shared.len() - keep;
        state.shared.drain(keep..).for_each(&mut *give);
        while given < want {
            let partial = state.heads[List::Partial as usize];
            let Some(id) = partial.or(state.heads[List::Free as usize]) else { break };
            let held = self.held(state, id);
            let here = (want - given).min(self.shape.objects - held.active());
            (0..here).for_each(|_| give(self.entry(held.slab, held.take())));
            given += here;
            state.out += here;
            self.relist(state, id);
        }
        given
    }

    /// A slab without objects that are out, in no list.
    fn make(&self) -> Result<ExtentId, Error> {
        let (space, pages) = (&self.arena.space, self.shape.pages as u32);
        let block = self.blocks.alloc()?;
        let made = space.alloc(pages, self.tag).and_then(|id| {
            space.charge(pages).inspect_err(|_| space.free(id))?;
            Ok(id)
        });
        match made {
            Ok(id) => {
                self.prepare(id, block);
                Ok(id)
            }
            Err(error) => {
                self.free_block(block);
                Err(error.into())
            }
        }
    }

    fn free_block(&self, block: NonNull<u8>) {
        // SAFETY: both callers have it from `blocks` for a slab that is not, or no longer.
        let freed = unsafe { self.blocks.free(block) };
        debug_assert_eq!(freed, Ok(()));
    }

    /// Lays a slab out, and its objects.
    fn prepare(&self, id: ExtentId, block: NonNull<u8>) {
        let Shape { colours, colour_step, first, objects, .. } = self.shape;
        let colour = self.colour.fetch_add(1, Relaxed) as usize % colours * colour_step;
        let extent = self.arena.space.extent(id);
        let start = self.arena.space.pointer(extent.start());
        let pad = self.guard.as_ref().map_or(0, Guard::pad);
        // SAFETY: the extent is new and its pages are charged, and the block is; no one else knows of either.
        unsafe {
            let held = Held::new(&extent.data, &self.shape);
            held.reset(start, block, first + colour + pad);
        }
        for index in 0..objects {
            let object = self.entry(&extent.data, index).object;
            if let Some(guard) = &self.guard {
                // SAFETY: the object is free, and its zones lie within its stride.
                unsafe { guard.prepare(object) }
            }
            if let Some(constructor) = self.options.constructor {
                constructor(object);
            }
        }
    }

    /// Puts an object that was out back into its slab.
    fn put_back(&self, state: &mut State, entry: Entry) {
        let Ok((id, _, index)) = self.locate(entry.object) else {
            unreachable!("{:?} is out, and of no slab", entry.object);
        };
        self.held(state, id).put(index);
        state.out -= 1;
        self.relist(state, id);
    }

    /// Unlinks the empty slabs above `most`, as a chain through their links.
    fn unlink_empty(&self, state: &mut State, most: usize) -> Option<ExtentId> {
        let mut chain = None;
        while state.lens[List::Free as usize] > most
            && let Some(id) = state.heads[List::Free as usize]
        {
            self.unlink(state, id, List::Free);
            self.held(state, id).set_next(chain);
            chain = Some(id);
        }
        chain
    }

    /// Gives a chain of slabs back, now or after a grace period.
    fn retire(&self, chain: Option<ExtentId>) {
        let Some(head) = chain else { return };
        if self.options.memory == Memory::AnyTime {
            self.reclaim(head);
        } else if let Some(depot) = self.me.upgrade() {
            self.waiting.fetch_add(1, Relaxed);
            let guard = crossbeam_epoch::pin();
            guard.defer(move || {
                depot.reclaim(head);
                depot.waiting.fetch_sub(1, Relaxed);
            });
            guard.flush();
        }
    }

    /// Gives back the pages of slabs that no one knows any more.
    fn reclaim(&self, head: ExtentId) {
        let mut chain = Some(head);
        while let Some(id) = chain {
            let space = &self.arena.space;
            let slab = &space.extent(id).data;
            // SAFETY: it was unlinked by the caller, who alone knows of it.
            let held = unsafe { Held::new(slab, &self.shape) };
            chain = held.next();
            if let Some(destructor) = self.options.destructor {
                (0..self.shape.objects)
                    .for_each(|index| destructor(self.entry(slab, index).object));
            }
            let Some(block) = slab.block() else { unreachable!("{id:?} is no slab") };
            let pages = PageSet::default();
            pages.insert(0..self.shape.pages as u32);
            // SAFETY: no object is out, and no one looks any more (K1).
            if unsafe { space.release(id, &pages) }.len() as usize == self.shape.pages {
                slab.clear();
                space.free(id);
                self.free_block(block);
            } else {
                // Locked memory: it stays, as a new slab.
                self.prepare(id, block);
                self.link(&mut self.state.lock(), id);
            }
        }
    }

    /// Takes objects for the reserve, as long as it wants any.
    fn fill_reserve(&self) -> Result<(), Error> {
        let wanted = self.options.reserve;
        let refused = page::Error::Mapping { bytes: wanted * size_of::<Entry>() };
        let mut state = self.state.lock();
        state.reserve.try_reserve_exact(wanted).map_err(|_| Error::Pages(refused))?;
        while state.reserve.len() < wanted {
            drop(state);
            let mut got = None;
            self.fetch(1, &mut |entry| got = Some(entry))?;
            state = self.state.lock();
            state.reserve.extend(got);
        }
        Ok(())
    }

    /// Gives back all that can be: what this thread and all together keep, and empty slabs. What other threads keep
    /// they give when they next come by. How many slabs went, or wait for a grace period.
    pub(crate) fn shrink(&self) -> usize {
        self.magazines.ask();
        self.magazines.drain(number(), self);
        let mut state = self.state.lock();
        let before = state.slabs();
        while let Some(entry) = state.shared.pop() {
            self.put_back(&mut state, entry);
        }
        state.shared.shrink_to_fit();
        let chain = self.unlink_empty(&mut state, 0);
        let went = before - state.slabs();
        drop(state);
        self.retire(chain);
        self.blocks.shrink();
        went
    }

    /// Gives everything back that no user has, for a cache that ends.
    ///
    /// # Safety
    /// No one uses the cache any more.
    pub(crate) unsafe fn close(&self) {
        crate::thread::forget(&match self.me.upgrade() {
            Some(depot) => depot,
            None => return,
        });
        // SAFETY: as the caller says; and no thread that ends comes by any more.
        unsafe { self.magazines.drain_all(self) };
        let reserve = std::mem::take(&mut self.state.lock().reserve);
        let mut state = self.state.lock();
        reserve.into_iter().for_each(|entry| self.put_back(&mut state, entry));
        drop(state);
        self.shrink();
    }

    fn slabs<'s>(&'s self, state: &'s State) -> impl Iterator<Item = ExtentId> + 's {
        state
            .heads
            .iter()
            .flat_map(move |&head| std::iter::successors(head, |&id| self.held(state, id).next()))
    }

    /// The objects that users have, in the order of the lists.
    pub(crate) fn live(&self) -> Vec<NonNull<u8>> {
        let state = self.state.lock();
        let slabs = self.slabs(&state).map(|id| self.held(&state, id));
        let live = slabs.flat_map(|held| {
            (0..self.shape.objects)
                .filter(move |&index| held.is_live(index))
                .map(move |index| self.entry(held.slab, index).object)
        });
        live.collect()
    }

    /// Asserts the whole state (C1, C2); no thread is at work in the cache.
    pub(crate) fn check(&self) {
        let state = self.state.lock();
        let (mut lens, mut out) = ([0; 3], 0);
        for (list, &head) in state.heads.iter().enumerate() {
            let mut prev = None;
            for id in std::iter::successors(head, |&id| self.held(&state, id).next()) {
                let held = self.held(&state, id);
                held.check();
                assert_eq!((held.prev(), self.list_of(held) as usize), (prev, list), "{id:?}");
                assert_eq!(self.arena.space.extent(id).tag(), self.tag);
                out += held.active();
                lens[list] += 1;
                prev = Some(id);
            }
        }
        assert_eq!((lens, out), (state.lens, state.out), "slabs by list, objects out");
        drop(state);
        let live = self.live().len();
        let state = self.state.lock();
        let kept = state.shared.len() + state.reserve.len() + state.lost + self.magazines.count();
        assert_eq!(live + kept, state.out, "objects out are live, kept or lost");
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Behind for Depot {
    fn fetch(&self, want: usize, give: &mut dyn FnMut(Entry)) -> Result<(), Error> {
        let mut state = self.state.lock();
        while self.hand_out(&mut state, want, give) == 0 {
            drop(state);
            let id = self.make()?;
            state = self.state.lock();
            self.link(&mut state, id);
        }
        Ok(())
    }

    fn put(&self, entries: &[Entry]) {
        let mut state = self.state.lock();
        let reserved = entries.len().min(self.options.reserve.saturating_sub(state.reserve.len()));
        let (reserved, rest) = entries.split_at(reserved);
        // There is room since the reserve was first filled: nothing is allocated here (C3).
        state.reserve.extend_from_slice(reserved);
        let Tunables { batchcount, shared, .. } = self.magazines.tunables();
        let room = (batchcount * shared) as usize;
        if state.shared.len() + rest.len() <= room && state.shared.try_reserve(rest.len()).is_ok() {
            state.shared.extend_from_slice(rest);
            return;
        }
        rest.iter().for_each(|&entry| self.put_back(&mut state, entry));
        let most = EMPTY_MIN.max(state.slabs() / EMPTY_SHARE);
        let chain = self.unlink_empty(&mut state, most);
        drop(state);
        self.retire(chain);
    }
}

impl Keeper for Depot {
    fn leave(&self, number: Number) {
        self.magazines.drain(number, self);
    }
}
