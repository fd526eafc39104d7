//! What a cache is behind its threads' own slabs: all other slabs, in lists under one lock.
//!
//! ```text
//!   made --> a thread's --all in use, more kept than may be, shrink, end--> no one's: partial, full, free
//!                ^-----------nothing left to take, an object of a full one freed-----------|
//!                                          free --more than 4 threads may keep, and 1/32--> unlisted --> reclaimed
//! ```
//! Locks: threads' registry, `state`, then that of the space. Slabs are made and
//! reclaimed, and constructors called, with no lock held.
//!
//! Invariants. sl-C1: a slab that is no one's is in the list that its count says. sl-C2: a slab's
//! count is that of its live objects; each of those is a user's, or in quarantine. sl-C3: slabs of
//! the reserve are no one else's, and what is freed there stays there.
//!
//! # Safety
//! - sl-K1: pages of a slab are committed from before it is found until it is reclaimed, and it is
//!   only when no object is live. With `Memory::Stable` no guard that was pinned before is left by
//!   then either.
//! - sl-K2: two objects never overlap: object n covers bytes n * stride to (n + 1) * stride from
//!   the first.
//! - sl-K3: a slab that is attached to the cache (sl-H2 in `cache_id`) is worked in by the thread
//!   that owns it, or, where no thread does, under the lock; `owner` becomes a thread under the
//!   lock only, and no one's by that thread only, under the lock.
#![allow(unsafe_code)]

use crate::bits::{Freed, NO_ONE, RESERVE};
use crate::cache_id::CacheId;
use crate::divider::Divider;
use crate::lists::{List, Lists};
use crate::options::Options;
use crate::red_zones::RedZones;
use crate::shape::Shape;
use crate::slab::Slab;
use crate::slab_ref::SlabRef;
use crate::sync::{AtomicU32, AtomicUsize, Mutex, MutexGuard, Relaxed};
use crate::thread::{Number, ThreadHooks, number};
use crate::thread_slabs::{AllThreadSlabs, ThreadSlabs, Tunables};
use crate::{Arena, Error};
use page::{Extent, ExtentId};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// Slabs that may be empty: as many as hold what so many threads may keep, and this share of all.
const EMPTY_LIMITS: usize = 4;
const EMPTY_SHARE: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) lists: Lists,
    /// Slabs that are threads'.
    pub(crate) owned: usize,
    /// Slabs of the reserve.
    pub(crate) reserve: Vec<ExtentId>,
    /// Objects that were written to when no one may; they stay live.
    pub(crate) quarantined: Vec<usize>,
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
    /// Bytes of an object, as they were asked for.
    pub(crate) size: usize,
    pub(crate) shape: Shape,
    pub(crate) red_zones: Option<RedZones>,
    pub(crate) threads: AllThreadSlabs,
    state: Mutex<State>,
    /// Objects that were not taken back.
    pub(crate) refused: AtomicUsize,
    /// Chains of slabs that wait for a grace period.
    pub(crate) waiting: AtomicUsize,
    pub(crate) cache_id: CacheId,
    /// Slabs that may always be empty.
    empty_min: usize,
    pub(crate) divider: Divider,
    pub(crate) colour: AtomicU32,
    pub(crate) me: Weak<Depot>,
}

/// An object's slab, and its number there.
pub(crate) type Location<'d> = (ExtentId, &'d Extent<Slab>, usize);

impl Depot {
    pub(crate) fn new(
        arena: &Arc<Arena>,
        size: usize,
        align: usize,
        options: Options,
    ) -> Result<Arc<Self>, Error> {
        let plain = Shape::new(options.layout, size, align)?;
        let red_zones = RedZones::new(size, align, &options);
        let shape = match &red_zones {
            Some(red_zones) => Shape::new(options.layout, red_zones.bytes(), align)?,
            None => plain,
        };
        let tunables = match (&red_zones, options.tunables) {
            (Some(_), _) => Tunables { limit: 0, batchcount: 0 },
            (None, Some(tunables)) => tunables.check()?,
            (None, None) => Tunables::suiting(&shape),
        };
        let depot = Arc::new_cyclic(|me| Depot {
            arena: arena.clone(),
            red_zones,
            threads: AllThreadSlabs::new(tunables),
            state: Mutex::default(),
            refused: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            cache_id: arena.next_cache(),
            empty_min: (EMPTY_LIMITS * tunables.limit as usize).div_ceil(shape.objects).max(2),
            divider: Divider::new(&shape),
            colour: AtomicU32::new(0),
            me: me.clone(),
            options,
            size,
            shape,
        });
        depot.make_reserve().inspect_err(|_| depot.end_reserve())?;
        Ok(depot)
    }

    /// A slab that the caller may work in.
    #[inline]
    pub(crate) fn slab_ref(&self, id: ExtentId) -> SlabRef<'_> {
        // SAFETY: each caller, here and in the other files of this type, says why he may (sl-K3).
        unsafe { SlabRef::new(&self.arena.space.extent(id).data, &self.shape) }
    }

    /// Slab and number of an object's address.
    pub(crate) fn locate(&self, object: NonNull<u8>) -> Result<Location<'_>, Error> {
        let address = object.addr().get();
        let foreign = Error::Foreign { address };
        let (id, extent) = self.arena.slab_at(object).ok_or(foreign)?;
        let index = self.index_in(extent, object).ok_or(foreign)?;
        Ok((id, extent, index))
    }

    /// The number of the object at an address, if it is one of that slab, and that is attached
    /// here. Without the lock it is to be believed of live objects only.
    fn index_in(&self, extent: &Extent<Slab>, object: NonNull<u8>) -> Option<usize> {
        // Where there is no slab, first is 0, and no address is that low.
        let at = object.addr().get().wrapping_sub(extent.data.first().addr());
        if self.cache_id.is_attached(extent) { self.divider.index(at) } else { None }
    }

    /// Unlocks, and gives back what there is too much of.
    pub(crate) fn end(&self, mut state: MutexGuard<'_, State>) {
        let most = self.empty_min.max(state.slabs() / EMPTY_SHARE);
        let chain = self.unlink_empty(&mut state, most);
        drop(state);
        self.retire(chain);
    }

    /// An object, under the lock; its slab stays no one's.
    pub(crate) fn alloc_shared(&self) -> Result<NonNull<u8>, Error> {
        loop {
            let mut state = self.state();
            let lists = &state.lists;
            if let Some(id) = lists.first(List::Partial).or_else(|| lists.first(List::Free)) {
                self.recommit(id)?;
                let slab_ref = self.slab_ref(id);
                let object = slab_ref.alloc().map(|index| slab_ref.object(index));
                state.lists.active += usize::from(object.is_some());
                self.relist(&mut state, id);
                let Some(object) = object else { unreachable!("{id:?} has no free object") };
                return Ok(object);
            }
            drop(state);
            let id = self.make()?;
            self.link_new(&mut self.state(), id);
        }
    }

    /// Takes up a slab that was made, as no one's. The lock is held.
    pub(crate) fn link_new(&self, state: &mut State, id: ExtentId) {
        self.attach(id, NO_ONE);
        state.lists.link(id, List::Free, |id| self.slab_ref(id));
    }

    /// Counts the pages of a slab of no one again that were given back. The lock is held.
    pub(crate) fn recommit(&self, id: ExtentId) -> Result<(), Error> {
        let slab = self.slab_ref(id).slab;
        self.arena.space.charge(slab.released().count_ones())?;
        slab.set_released(0);
        Ok(())
    }

    /// Puts a slab that is no one's, and whose count has changed, into the right list. The lock is
    /// held.
    pub(crate) fn relist(&self, state: &mut State, id: ExtentId) {
        let slab_ref = self.slab_ref(id);
        let list = List::of(slab_ref, &self.shape);
        if list != List::of_slab(slab_ref.slab) {
            state.lists.unlink(id, |id| self.slab_ref(id));
            state.lists.link(id, list, |id| self.slab_ref(id));
        }
    }

    /// An object of the reserve.
    pub(crate) fn alloc_reserved(&self) -> Option<NonNull<u8>> {
        let state = self.state();
        // The reserve's slabs are worked in under the lock only.
        let mut slabs = state.reserve.iter().map(|&id| self.slab_ref(id));
        slabs.find_map(|slab_ref| slab_ref.alloc().map(|index| slab_ref.object(index)))
    }

    /// Frees an object, wherever it lies.
    pub(crate) fn free(&self, object: NonNull<u8>, place: Location<'_>) -> Result<(), Error> {
        let (id, extent, index) = place;
        let (slab, number) = (&extent.data, number());
        let twice = Error::DoubleFree { address: object.addr().get() };
        loop {
            match slab.owner.load(Relaxed) {
                NO_ONE | RESERVE => {
                    let state = self.state();
                    if matches!(slab.owner.load(Relaxed), NO_ONE | RESERVE) {
                        // Of a second free: the slab may have gone, and be another cache's. The
                        // lock tells (sl-H2).
                        if self.index_in(extent, object) != Some(index) {
                            return Err(twice);
                        }
                        let done = self.free_locked(state, id, index);
                        return if done { Ok(()) } else { Err(twice) };
                    }
                }
                owner if number.is(owner) => {
                    let Some(thread_slabs) = self.threads.of(number) else {
                        unreachable!("{id:?} is of a thread that owns nothing")
                    };
                    let done = self.free_own(thread_slabs, id, index);
                    return if done { Ok(()) } else { Err(twice) };
                }
                _ => match slab.bits(&self.shape).free_remotely(index) {
                    Freed::Deferred => return Ok(()),
                    Freed::DoubleFree => return Err(twice),
                    Freed::Orphan => {
                        self.drain_remote(id);
                        return Ok(());
                    }
                },
            }
        }
    }

    /// Frees an object of a slab that is no thread's; false where it is free.
    fn free_locked(&self, mut state: MutexGuard<'_, State>, id: ExtentId, index: usize) -> bool {
        let slab_ref = self.slab_ref(id);
        let list = List::of_slab(slab_ref.slab);
        if !slab_ref.free(index) {
            return false;
        }
        // The reserve's.
        if list == List::Unlisted {
            return true;
        }
        state.lists.active -= 1;
        // More of a full slab's objects are likely to come.
        match self.threads.make(number(), &self.shape).filter(|_| list == List::Full) {
            Some(thread_slabs) => {
                self.own_listed(&mut state, thread_slabs, number(), id);
                drop(state);
                if thread_slabs.is_over() {
                    self.trim(thread_slabs);
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
    fn drain_remote(&self, id: ExtentId) {
        let mut state = self.state();
        // It may have gone with all bits, and be another cache's or in the making: first of all it
        // must be attached here (sl-H2). Where it is in no list, a thread's or the reserve's, the
        // bit is found when it comes into one (sl-B1).
        if self.is_attached(id) && List::of_slab(self.slab_ref(id).slab) != List::Unlisted {
            state.lists.active -= self.slab_ref(id).drain_remote();
            self.relist(&mut state, id);
        }
        self.end(state);
    }

    /// Gives everything back that no user has, for a cache that ends.
    ///
    /// # Safety
    /// No one uses the cache any more.
    pub(crate) unsafe fn close(&self) {
        let Some(depot) = self.me.upgrade() else { return };
        // From here on no thread that ends comes by; so the slabs of all threads are this caller's.
        let cache: Arc<dyn ThreadHooks> = depot;
        crate::thread::forget(&cache);
        self.threads.all().for_each(|thread_slabs| self.disown_all_and_end(thread_slabs));
        self.end_reserve();
        self.shrink();
    }

    /// Takes note of an object that is not to be given out again.
    pub(crate) fn quarantine(&self, object: NonNull<u8>) {
        let lost = &mut self.state().quarantined;
        let address = object.addr().get();
        // Without memory for the note the object is a user's, for all that is known.
        if !lost.contains(&address) && lost.try_reserve(1).is_ok() {
            lost.push(address);
        }
    }

    /// The slabs that are attached here: all but those that are being made or given back, as
    /// threads that have ended may still do. Those stay as long as the lock is held (sl-H2).
    fn slabs<'d>(&'d self, _state: &'d State) -> impl Iterator<Item = SlabRef<'d>> {
        // No thread is at work in those of threads, say all callers.
        self.arena.space.live().filter(|&id| self.is_attached(id)).map(|id| self.slab_ref(id))
    }

    /// The objects that users have; no thread is at work.
    pub(crate) fn live(&self) -> Vec<NonNull<u8>> {
        let state = self.state();
        let live = self.slabs(&state).flat_map(|slab_ref| {
            let bits = slab_ref.slab.bits(&self.shape);
            let live = (0..self.shape.objects).filter(move |&index| bits.is_out(index));
            live.map(move |index| slab_ref.object(index))
        });
        live.filter(|object| !state.quarantined.contains(&object.addr().get())).collect()
    }

    /// Asserts the whole state (sl-C1, sl-C2, sl-C3); no thread is at work in the cache.
    pub(crate) fn check(&self) {
        let state = self.state();
        state.lists.check(&self.shape, |id| self.slab_ref(id));
        let (mut slabs, mut owned) = (0, 0);
        for slab_ref in self.slabs(&state) {
            let owner = slab_ref.slab.owner.load(Relaxed);
            let is_owned = owner != NO_ONE && owner != RESERVE;
            owned += usize::from(is_owned);
            if is_owned {
                slab_ref.recount();
            }
            slab_ref.check();
            let is_listed = List::of_slab(slab_ref.slab) != List::Unlisted;
            assert_eq!(is_listed, owner == NO_ONE, "in a list is what is no one's, not {owner}'s");
            slabs += 1;
        }
        assert_eq!(slabs, state.slabs(), "attached slabs");
        assert_eq!(owned, state.owned, "slabs of threads");
        let own = self.threads.all().map(|thread_slabs| self.check_thread_slabs(thread_slabs));
        assert_eq!(own.sum::<usize>(), owned, "slabs of threads, as linked");
    }

    /// How many slabs a thread has.
    fn check_thread_slabs(&self, thread_slabs: &ThreadSlabs) -> usize {
        let (head, tail, current) = thread_slabs.with(|own| (own.head, own.tail, own.current));
        let (mut slabs, mut kept, mut last) = (Vec::new(), 0, None);
        for id in std::iter::successors(head, |&id| self.slab_ref(id).next()) {
            let slab_ref = self.slab_ref(id);
            assert_eq!(slab_ref.prev(), last);
            kept += self.shape.objects - slab_ref.active();
            slabs.push((
                slab_ref.slab.first().addr(),
                slab_ref.slab.bits(&self.shape).live.as_ptr(),
            ));
            last = Some(id);
        }
        assert_eq!((last, kept), (tail, thread_slabs.kept() as usize), "slabs of a thread");
        let current = current.map(|id| self.slab_ref(id).slab);
        let bits = current.map(|slab| (slab.bits(&self.shape), slab.first().addr()));
        thread_slabs.check(&slabs, bits.as_ref().map(|(bits, first)| (bits, *first)));
        slabs.len()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Free objects of the reserve.
    pub(crate) fn reserved(&self, state: &State) -> usize {
        let free = |&id: &ExtentId| self.shape.objects - self.slab_ref(id).active();
        state.reserve.iter().map(free).sum()
    }
}

impl ThreadHooks for Depot {
    fn on_exit(&self, number: Number) {
        if let Some(thread_slabs) = self.threads.of(number) {
            self.disown_all(&mut self.state(), thread_slabs);
        }
    }

    fn after_exit(&self) {
        self.end(self.state());
    }

    fn lock_for_fork(&self) {
        self.state.lock_for_fork();
    }

    fn unlock_after_fork(&self) {
        self.state.unlock_after_fork();
    }

    fn repair(&self, number: Number) {
        // SAFETY: the child has no other threads.
        unsafe { self.threads.end_others(number) };
        self.repair_slabs(number);
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        // SAFETY: whoever uses the cache, or gives back slabs of it, holds the depot.
        unsafe { self.free_blocks() }
    }
}
