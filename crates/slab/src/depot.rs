//! What a cache is behind its threads' own slabs: all other slabs, in lists under one lock.
//!
//! ```text
//!   made --> a thread's --all in use, more kept than may be, shrink, end--> no one's: partial, full, free
//!                ^-----------nothing left to take, an object of a full one freed-----------|
//!                                          free --more than 4 threads may keep, and 1/32--> apart --> reclaimed
//! ```
//! Locks: threads' registry, `state`, then those of blocks and of the space. Slabs are made and reclaimed, and
//! constructors called, with no lock held.
//!
//! Invariants. C1: a slab that is no one's is in the list that its count says. C2: a slab's count is that of its live
//! objects; each of those is a user's, or lost. C3: slabs of the reserve are no one else's, and what is freed there
//! stays there.
//!
//! # Safety
//! - K1: pages of a slab are committed from before it is found until it is reclaimed, and it is only when no object is
//!   live. With `Memory::Stable` no guard that was pinned before is left by then either.
//! - K2: two objects never overlap: object n covers bytes n * stride to (n + 1) * stride from the first.
//! - K3: a slab is worked in by the thread that owns it, or, where no thread does, under the lock; `owner` becomes a
//!   thread under the lock only, and no one's by that thread only, under the lock.
#![allow(unsafe_code)]

use crate::bits::{Freed, NO_ONE, RESERVE};
use crate::guard::Guard;
use crate::layout::Shape;
use crate::lists::{List, Lists};
use crate::magazine::{Magazine, Magazines, Own, Tunables};
use crate::options::{Memory, Options};
use crate::slab::{Held, Slab};
use crate::sync::{AtomicU32, AtomicUsize, Mutex, MutexGuard, Relaxed};
use crate::thread::{Keeper, Number, number};
use crate::{Arena, Error, packed};
use page::{Extent, ExtentId, PageSet};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// Slabs that may be empty: as many as hold what so many threads may keep, and this share of all.
const EMPTY_LIMITS: usize = 4;
const EMPTY_SHARE: usize = 32;
/// Objects' places are computed with this many binary places: a place is below 2^20.
const PLACE_SHIFT: u32 = 40;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) lists: Lists,
    /// Slabs that are threads'.
    pub(crate) owned: usize,
    /// Slabs of the reserve.
    pub(crate) reserve: Vec<ExtentId>,
    /// Objects that were written to when no one may; they stay live.
    pub(crate) lost: Vec<usize>,
}

impl State {
    /// Slabs there are.
    pub(crate) fn slabs(&self) -> usize {
        self.lists.slabs() + self.owned + self.reserve.len()
    }
}

#[derive(Debug)]
pub(crate) struct Depot {
    pub(crate) arena: Arc<Arena>,
    pub(crate) options: Options,
    pub(crate) shape: Shape,
    pub(crate) guard: Option<Guard>,
    pub(crate) magazines: Magazines,
    state: Mutex<State>,
    /// Chains of slabs that wait for a grace period.
    pub(crate) waiting: AtomicUsize,
    tag: u32,
    /// Slabs that may always be empty.
    empty_min: usize,
    /// Bytes from the first object to the end of the last.
    span: usize,
    /// 2^40 / stride, rounded up.
    reciprocal: u64,
    colour: AtomicU32,
    pub(crate) blocks: packed::RawCache,
    me: Weak<Depot>,
}

/// An object's slab, and its number there.
pub(crate) type Place<'d> = (ExtentId, &'d Extent<Slab>, usize);

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
            (Some(_), _) => Tunables { limit: 0, batchcount: 0 },
            (None, Some(tunables)) => tunables.check()?,
            (None, None) => Tunables::suiting(&shape),
        };
        let depot = Depot {
            arena: arena.clone(),
            guard,
            magazines: Magazines::new(tunables),
            state: Mutex::default(),
            waiting: AtomicUsize::new(0),
            tag: arena.next_cache(),
            empty_min: (EMPTY_LIMITS * tunables.limit as usize).div_ceil(shape.objects).max(2),
            span: shape.objects * shape.stride,
            reciprocal: (1u64 << PLACE_SHIFT).div_ceil(shape.stride as u64),
            colour: AtomicU32::new(0),
            blocks: packed::RawCache::new(&arena.blocks, shape.block_bytes(), 8)?,
            me: Weak::new(),
            options,
            shape,
        };
        let depot = Arc::new_cyclic(|me| Depot { me: me.clone(), ..depot });
        depot.make_reserve().inspect_err(|_| depot.end_reserve())?;
        Ok(depot)
    }

    /// A slab that the caller may work in.
    #[inline]
    pub(crate) fn held(&self, id: ExtentId) -> Held<'_> {
        // SAFETY: each caller, here and in `shrink`, says why he may (K3).
        unsafe { Held::new(&self.arena.space.extent(id).data, &self.shape) }
    }

    /// Slab and number of an object's address.
    #[inline]
    pub(crate) fn locate(&self, object: NonNull<u8>) -> Result<Place<'_>, Error> {
        let address = object.addr().get();
        let foreign = Error::Foreign { address };
        let (id, extent) = self.arena.slab_at(object).ok_or(foreign)?;
        let index = self.index_in(extent, object).ok_or(foreign)?;
        Ok((id, extent, index))
    }

    /// The number of the object at an address, if it is one of that slab of this cache.
    #[inline]
    fn index_in(&self, extent: &Extent<Slab>, object: NonNull<u8>) -> Option<usize> {
        // Where there is no slab, first is 0, and no address is that low.
        let at = object.addr().get().wrapping_sub(extent.data.first().addr());
        if extent.tag() != self.tag || at >= self.span {
            return None;
        }
        // `at` is below 2^20, so neither product overflows.
        let index = ((at as u64).wrapping_mul(self.reciprocal) >> PLACE_SHIFT) as usize;
        (index.wrapping_mul(self.shape.stride) == at).then_some(index)
    }

    /// An object of the thread's own slab, if there is one at once.
    #[inline]
    pub(crate) fn take_own(&self, number: Number) -> Option<NonNull<u8>> {
        let magazine = self.magazines.own(number)?;
        let (_, slab) = magazine.with(|own| own.current)?;
        // SAFETY: the current slab is the calling thread's (K3); descriptors stay as long as the arena.
        let held = unsafe { Held::new(slab.as_ref(), &self.shape) };
        let index = held.take()?;
        magazine.set_kept(magazine.kept().wrapping_sub(1));
        Some(held.object(index))
    }

    /// Frees an object of the thread's own slabs; `None` if it is not found there at once.
    #[inline]
    pub(crate) fn free_near(
        &self,
        number: Number,
        object: NonNull<u8>,
    ) -> Option<Result<(), Error>> {
        let magazine = self.magazines.own(number)?;
        let extent = magazine.near(object)?;
        let index = self.index_in(extent, object)?;
        let is_own = number.is(extent.data.owner.load(Relaxed));
        is_own.then(|| self.free_own(magazine, &extent.data, index))
    }

    /// Frees an object of a slab that is the calling thread's.
    #[inline]
    fn free_own(&self, magazine: &Magazine, slab: &Slab, index: usize) -> Result<(), Error> {
        // SAFETY: the slab is the calling thread's (K3).
        let held = unsafe { Held::new(slab, &self.shape) };
        if !held.put(index) {
            return Err(Error::DoubleFree { address: held.object(index).addr().get() });
        }
        magazine.set_kept(magazine.kept().wrapping_add(1));
        if magazine.is_over() {
            self.trim(magazine);
        }
        Ok(())
    }

    /// An object from where there is one, in a slab that becomes the thread's if it may have any.
    pub(crate) fn take(&self) -> Result<NonNull<u8>, Error> {
        let number = number();
        let Some(magazine) = self.magazines.make(number) else { return self.take_shared() };
        loop {
            if let Some(object) = self.take_own(number) {
                return Ok(object);
            }
            self.refill(magazine, number)?;
        }
    }

    /// Makes a slab with free objects the thread's current one.
    fn refill(&self, magazine: &Magazine, number: Number) -> Result<(), Error> {
        if let Some((id, _)) = magazine.with(|own| own.current) {
            // The thread's, so it may work there (K3).
            let found = self.held(id).collect();
            if found > 0 {
                magazine.set_kept(magazine.kept() + found as u32);
                return Ok(());
            }
        }
        let mut state = self.state.lock();
        if let Some((id, _)) = magazine.with(|own| own.current.take()) {
            self.release(&mut state, magazine, id);
        }
        let lists = &state.lists;
        let shared = || lists.first(List::Partial).or_else(|| lists.first(List::Free));
        match magazine.with(|own| own.head).or_else(shared) {
            Some(id) if List::of_slab(self.held(id).slab) == List::Apart => {
                self.set_current(magazine, id)
            }
            Some(id) => {
                self.recommit(id)?;
                self.claim(&mut state, magazine, number, id);
                self.set_current(magazine, id);
            }
            None => {
                drop(state);
                let id = self.make()?;
                self.adopt(&mut self.state.lock(), magazine, number, id);
                self.set_current(magazine, id);
            }
        }
        Ok(())
    }

    fn set_current(&self, magazine: &Magazine, id: ExtentId) {
        magazine.with(|own| own.current = Some((id, NonNull::from(self.held(id).slab))));
    }

    /// Makes a slab that is in a list the thread's. The lock is held (K3).
    fn claim(&self, state: &mut State, magazine: &Magazine, number: Number, id: ExtentId) {
        state.lists.unlink(id, |id| self.held(id));
        self.adopt(state, magazine, number, id);
    }

    /// Makes a slab that is in no list the thread's, the first of them.
    fn adopt(&self, state: &mut State, magazine: &Magazine, number: Number, id: ExtentId) {
        let held = self.held(id);
        held.slab.owner.store(number.raw(), Relaxed);
        state.owned += 1;
        let free = self.shape.objects - held.active();
        magazine.set_kept(magazine.kept() + free as u32);
        magazine.with(|own| {
            held.set_links(None, own.head);
            match own.head {
                Some(head) => self.held(head).set_prev(Some(id)),
                None => own.tail = Some(id),
            }
            own.head = Some(id);
        });
    }

    /// Makes a slab of the thread's no one's. The lock is held.
    fn release(&self, state: &mut State, magazine: &Magazine, id: ExtentId) {
        let held = self.held(id);
        magazine.with(|own| {
            let (prev, next) = (held.prev(), held.next());
            match prev {
                Some(prev) => self.held(prev).set_next(next),
                None => own.head = next,
            }
            match next {
                Some(next) => self.held(next).set_prev(prev),
                None => own.tail = prev,
            }
            own.current = own.current.filter(|&(current, _)| current != id);
        });
        let free = self.shape.objects - held.active();
        magazine.set_kept(magazine.kept() - free as u32);
        held.slab.bits(&self.shape).give_up();
        // No one's, and the lock is held: K3 again.
        held.collect();
        state.owned -= 1;
        state.lists.link(id, List::of(held, &self.shape), |id| self.held(id));
    }

    /// Gives the thread's oldest slabs up, as long as it keeps too much; all, if someone asked.
    fn trim(&self, magazine: &Magazine) {
        let Tunables { limit, batchcount } = self.magazines.tunables();
        let most = if magazine.is_asked() { 0 } else { limit - batchcount };
        magazine.set_limit(limit);
        let mut state = self.state.lock();
        while magazine.kept() > most
            && let Some(id) = magazine.with(|own: &mut Own| own.tail)
        {
            self.release(&mut state, magazine, id);
        }
        self.end(state);
    }

    /// Gives up all slabs of a thread, or of one that is no more.
    pub(crate) fn drain(&self, magazine: &Magazine) {
        let mut state = self.state.lock();
        while let Some(id) = magazine.with(|own| own.head) {
            self.release(&mut state, magazine, id);
        }
        self.end(state);
    }

    /// Unlocks, and gives back what there is too much of.
    fn end(&self, mut state: MutexGuard<'_, State>) {
        let most = self.empty_min.max(state.slabs() / EMPTY_SHARE);
        let chain = self.unlink_empty(&mut state, most);
        drop(state);
        self.retire(chain);
    }

    /// An object, under the lock; its slab stays no one's.
    fn take_shared(&self) -> Result<NonNull<u8>, Error> {
        loop {
            let mut state = self.state.lock();
            let lists = &state.lists;
            if let Some(id) = lists.first(List::Partial).or_else(|| lists.first(List::Free)) {
                self.recommit(id)?;
                let held = self.held(id);
                let object = held.take().map(|index| held.object(index));
                state.lists.active += usize::from(object.is_some());
                self.relist(&mut state, id);
                let Some(object) = object else { unreachable!("{id:?} has no free object") };
                return Ok(object);
            }
            drop(state);
            let id = self.make()?;
            self.state.lock().lists.link(id, List::Free, |id| self.held(id));
        }
    }

    /// Counts the pages of a slab of no one again that were given back. The lock is held.
    fn recommit(&self, id: ExtentId) -> Result<(), Error> {
        let slab = self.held(id).slab;
        self.arena.space.charge(slab.released().count_ones())?;
        slab.set_released(0);
        Ok(())
    }

    /// Puts a slab that is no one's, and whose count has changed, into the right list. The lock is held.
    fn relist(&self, state: &mut State, id: ExtentId) {
        let held = self.held(id);
        let list = List::of(held, &self.shape);
        if list != List::of_slab(held.slab) {
            state.lists.unlink(id, |id| self.held(id));
            state.lists.link(id, list, |id| self.held(id));
        }
    }

    /// An object of the reserve.
    pub(crate) fn take_reserved(&self) -> Option<NonNull<u8>> {
        let state = self.state.lock();
        // The reserve's slabs are worked in under the lock only.
        let mut slabs = state.reserve.iter().map(|&id| self.held(id));
        slabs.find_map(|held| held.take().map(|index| held.object(index)))
    }

    /// Frees an object, wherever it lies.
    pub(crate) fn free(&self, object: NonNull<u8>, place: Place<'_>) -> Result<(), Error> {
        let (id, extent, index) = place;
        let (slab, number) = (&extent.data, number());
        let twice = Error::DoubleFree { address: object.addr().get() };
        loop {
            match slab.owner.load(Relaxed) {
                NO_ONE | RESERVE => {
                    let state = self.state.lock();
                    if matches!(slab.owner.load(Relaxed), NO_ONE | RESERVE) {
                        let done = self.free_locked(state, id, index);
                        return if done { Ok(()) } else { Err(twice) };
                    }
                }
                owner if number.is(owner) => {
                    let Some(magazine) = self.magazines.own(number) else {
                        unreachable!("{id:?} is of a thread that owns nothing")
                    };
                    magazine.set_near(object, extent);
                    return self.free_own(magazine, slab, index);
                }
                _ => match slab.bits(&self.shape).free_remotely(index) {
                    Freed::Left => return Ok(()),
                    Freed::Twice => return Err(twice),
                    Freed::Alone => {
                        self.collect(id);
                        return Ok(());
                    }
                },
            }
        }
    }

    /// Frees an object of a slab that is no thread's; false where it is free.
    fn free_locked(&self, mut state: MutexGuard<'_, State>, id: ExtentId, index: usize) -> bool {
        let held = self.held(id);
        let list = List::of_slab(held.slab);
        if !held.put(index) {
            return false;
        }
        if held.slab.owner.load(Relaxed) == RESERVE {
            return true;
        }
        state.lists.active -= 1;
        // More of a full slab's objects are likely to come.
        match self.magazines.make(number()).filter(|_| list == List::Full) {
            Some(magazine) => {
                self.claim(&mut state, magazine, number(), id);
                drop(state);
                if magazine.is_over() {
                    self.trim(magazine);
                }
            }
            None => {
                self.relist(&mut state, id);
                self.end(state);
            }
        }
        true
    }

    /// Frees what was freed remotely in a slab that its thread gave up meanwhile.
    fn collect(&self, id: ExtentId) {
        let mut state = self.state.lock();
        let held = self.held(id);
        // It may be another thread's by now, who finds the bit, or be gone with all bits.
        let is_ours = self.arena.space.extent(id).tag() == self.tag && !held.slab.first().is_null();
        let is_listed = is_ours && List::of_slab(held.slab) != List::Apart;
        if is_listed && held.slab.owner.load(Relaxed) == NO_ONE {
            state.lists.active -= held.collect();
            self.relist(&mut state, id);
        }
        self.end(state);
    }

    /// A slab without objects in use, in no list.
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
        extent.data.list.store(List::Apart as u8, Relaxed);
        extent.data.owner.store(NO_ONE, Relaxed);
        for index in 0..objects {
            let object = self.held(id).object(index);
            if let Some(guard) = &self.guard {
                // SAFETY: the object is free, and its zones lie within its stride.
                unsafe { guard.prepare(object) }
            }
            if let Some(constructor) = self.options.constructor {
                constructor(object);
            }
        }
    }

    /// Unlinks the empty slabs above `most`, as a chain through their links. The lock is held.
    pub(crate) fn unlink_empty(&self, state: &mut State, most: usize) -> Option<ExtentId> {
        let mut chain = None;
        while state.lists.len(List::Free) > most
            && let Some(id) = state.lists.first(List::Free)
        {
            state.lists.unlink(id, |id| self.held(id));
            self.held(id).set_next(chain);
            chain = Some(id);
        }
        chain
    }

    /// Gives a chain of slabs back, now or after a grace period.
    pub(crate) fn retire(&self, chain: Option<ExtentId>) {
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
                (0..self.shape.objects).for_each(|index| destructor(held.object(index)));
            }
            let Some(block) = slab.block() else { unreachable!("{id:?} is no slab") };
            let all = u16::MAX >> (u16::BITS as usize - self.shape.pages);
            let pages = PageSet::from_low_bits((all & !slab.released()).into());
            // SAFETY: no object is out, and no one looks any more (K1).
            if unsafe { space.release(id, &pages) }.len() == pages.len() {
                slab.clear();
                space.free(id);
                self.free_block(block);
            } else {
                // Locked memory, so none of it was given back before: it stays, as a new slab.
                self.prepare(id, block);
                self.state.lock().lists.link(id, List::Free, |id| self.held(id));
            }
        }
    }

    /// Makes the slabs of the reserve.
    fn make_reserve(&self) -> Result<(), Error> {
        let slabs = self.options.reserve.div_ceil(self.shape.objects);
        let refused = page::Error::Mapping { bytes: slabs * size_of::<ExtentId>() };
        let mut state = self.state.lock();
        state.reserve.try_reserve_exact(slabs).map_err(|_| Error::Pages(refused))?;
        for _ in 0..slabs {
            let id = self.make()?;
            self.held(id).slab.owner.store(RESERVE, Relaxed);
            state.reserve.push(id);
        }
        Ok(())
    }

    /// Makes the reserve's slabs no one's, for a cache that ends.
    fn end_reserve(&self) {
        let mut state = self.state.lock();
        for id in std::mem::take(&mut state.reserve) {
            let held = self.held(id);
            held.slab.owner.store(NO_ONE, Relaxed);
            state.lists.link(id, List::of(held, &self.shape), |id| self.held(id));
        }
        let chain = self.unlink_empty(&mut state, 0);
        drop(state);
        self.retire(chain);
    }

    /// Gives everything back that no user has, for a cache that ends.
    ///
    /// # Safety
    /// No one uses the cache any more.
    pub(crate) unsafe fn close(&self) {
        let Some(depot) = self.me.upgrade() else { return };
        // From here on no thread that ends comes by; so all magazines are this caller's.
        crate::thread::forget(&depot);
        self.magazines.all().for_each(|magazine| self.drain(magazine));
        self.end_reserve();
        self.shrink();
    }

    /// Takes note of an object that is not to be given out again.
    pub(crate) fn lose(&self, object: NonNull<u8>) {
        let lost = &mut self.state.lock().lost;
        let address = object.addr().get();
        // Without memory for the note the object is a user's, for all that is known.
        if !lost.contains(&address) && lost.try_reserve(1).is_ok() {
            lost.push(address);
        }
    }

    /// The cache's slabs, those that wait for a grace period too.
    fn slabs(&self) -> impl Iterator<Item = &Slab> {
        let extents = self.arena.space.live().map(|id| self.arena.space.extent(id));
        let ours = extents.filter(|extent| extent.pages() > 0 && extent.tag() == self.tag);
        ours.map(|extent| &extent.data).filter(|slab| !slab.first().is_null())
    }

    /// The objects that users have; no thread is at work.
    pub(crate) fn live(&self) -> Vec<NonNull<u8>> {
        let lost = self.state.lock().lost.clone();
        let live = self.slabs().flat_map(|slab| {
            // SAFETY: no thread is at work.
            let held = unsafe { Held::new(slab, &self.shape) };
            let live = (0..self.shape.objects).filter(move |&index| held.is_live(index));
            live.map(move |index| held.object(index))
        });
        live.filter(|object| !lost.contains(&object.addr().get())).collect()
    }

    /// Asserts the whole state (C1, C2, C3); no thread is at work in the cache.
    pub(crate) fn check(&self) {
        let state = self.state.lock();
        state.lists.check(&self.shape, |id| self.held(id));
        let mut owned = 0;
        for slab in self.slabs() {
            // SAFETY: no thread is at work.
            let held = unsafe { Held::new(slab, &self.shape) };
            held.check();
            let owner = slab.owner.load(Relaxed);
            owned += usize::from(owner != NO_ONE && owner != RESERVE);
            assert!(owner == NO_ONE || List::of_slab(slab) == List::Apart, "{owner} is in a list");
        }
        assert_eq!(owned, state.owned, "slabs of threads");
        let own = self.magazines.all().map(|magazine| self.check_magazine(magazine));
        assert_eq!(own.sum::<usize>(), owned, "slabs of threads, as linked");
    }

    /// How many slabs a magazine has.
    fn check_magazine(&self, magazine: &Magazine) -> usize {
        let (head, tail) = magazine.with(|own| (own.head, own.tail));
        let (mut count, mut kept, mut last) = (0, 0, None);
        for id in std::iter::successors(head, |&id| self.held(id).next()) {
            assert_eq!(self.held(id).prev(), last);
            kept += self.shape.objects - self.held(id).active();
            count += 1;
            last = Some(id);
        }
        assert_eq!((last, kept), (tail, magazine.kept() as usize), "slabs of a thread");
        count
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Free objects of the reserve.
    pub(crate) fn reserved(&self, state: &State) -> usize {
        let free = |&id: &ExtentId| self.shape.objects - self.held(id).active();
        state.reserve.iter().map(free).sum()
    }
}

impl Keeper for Depot {
    fn leave(&self, number: Number) {
        if let Some(magazine) = self.magazines.own(number) {
            self.drain(magazine);
        }
    }
}
