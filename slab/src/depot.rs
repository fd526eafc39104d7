//! A cache's slabs without an owner, in lists under one lock.
//!
//! ```text
//!   made --> a thread's --all in use, too much kept, shrink, exit--> no owner: partial, full, free
//!                ^--------nothing left to take, an object of a full one freed---------|
//!                  free --more than 4 threads may keep, and 1/32--> unlisted --> reclaimed
//! ```
//! Lock order: the registry of threads, `state`, then the lock of the space. Slabs are created and
//! reclaimed, and constructors called, while no lock is held.
//!
//! Invariants:
//! - sl-C1: a slab without an owner is in the list that its count determines.
//! - sl-C2: a slab's count is the number of its live objects. Each live object belongs to a user or
//!   is in quarantine.
//! - sl-C3: a slab of the reserve never belongs to a thread, and an object freed in the slab
//!   returns to the reserve.
//!
//! # Safety
//! - sl-K1: the pages of a slab are committed before any thread can find the slab, and stay
//!   committed until the slab is reclaimed. A slab is reclaimed only when none of its objects is
//!   live. With `Memory::Stable`, all guards that were pinned before the slab was unlinked must
//!   have been dropped, too.
//! - sl-K2: two objects never overlap: object n covers the bytes from n * stride to (n + 1) *
//!   stride after the start of object 0.
//! - sl-K3: only the owning thread accesses the memory of a slab that is attached to the cache
//!   (sl-H2 in `cache_id`). If no thread owns the slab, only the holder of the lock accesses the
//!   memory. `owner` is set to the number of a thread, or reset by that thread, only under the
//!   lock.
#![allow(unsafe_code)]

use crate::bits::{NO_ONE, RESERVE};
use crate::cache_id::CacheId;
use crate::divider::Divider;
use crate::lists::{List, Lists};
use crate::options::{Options, Tunables};
use crate::policy::EMPTY_PER_THREAD_LIMIT;
use crate::red_zones::RedZones;
use crate::shape::Shape;
use crate::slab::Slab;
use crate::slab_ref::SlabRef;
use crate::sync::{AtomicU32, AtomicUsize, Mutex, MutexGuard};
use crate::thread_slabs::{AllThreadSlabs, ThreadSlabs};
use crate::{Arena, Error};
use page::{Extent, ExtentId, Space};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) lists: Lists,
    /// The number of slabs that are owned by threads.
    pub(crate) owned: usize,
    /// The slabs of the reserve.
    pub(crate) reserve: Vec<ExtentId>,
    /// Objects that were overwritten while they were free, or beyond their bounds. Such objects are
    /// never allocated again.
    pub(crate) quarantined: Vec<usize>,
}

impl State {
    /// Returns the total number of slabs.
    pub(crate) fn slabs(&self) -> usize {
        self.lists.slabs() + self.owned + self.reserve.len()
    }
}

#[derive(Debug)]
pub(crate) struct Depot {
    pub(crate) arena: Arc<Arena>,
    pub(crate) options: Options,
    /// The size of an object in bytes, as requested.
    pub(crate) size: usize,
    pub(crate) shape: Shape,
    pub(crate) red_zones: Option<RedZones>,
    pub(crate) threads: AllThreadSlabs,
    pub(crate) state: Mutex<State>,
    /// The number of frees that the cache rejected.
    pub(crate) refused: AtomicUsize,
    /// The number of chains of slabs that wait for a grace period.
    pub(crate) waiting: AtomicUsize,
    pub(crate) cache_id: CacheId,
    /// The minimum number of empty slabs that the cache keeps.
    pub(crate) empty_min: usize,
    divider: Divider,
    pub(crate) colour: AtomicU32,
    pub(crate) me: Weak<Depot>,
}

/// An object's slab, and the number of the object in the slab.
pub(crate) type Location<'d> = (ExtentId, &'d Extent<Slab>, usize);

impl Depot {
    /// Returns a cache that has no slabs yet.
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
            (None, None) => Tunables::suiting(shape.stride, shape.objects),
        };
        Ok(Arc::new_cyclic(|me| Depot {
            arena: arena.clone(),
            red_zones,
            threads: AllThreadSlabs::new(tunables),
            state: Mutex::default(),
            refused: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            cache_id: arena.next_cache(),
            empty_min: (EMPTY_PER_THREAD_LIMIT * tunables.limit as usize)
                .div_ceil(shape.objects)
                .max(2),
            divider: Divider::new(&shape),
            colour: AtomicU32::new(0),
            me: me.clone(),
            options,
            size,
            shape,
        }))
    }

    /// Takes the lock, waiting if necessary.
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked { depot: self, state: self.state.lock() }
    }

    pub(crate) fn space(&self) -> &Space<Slab> {
        &self.arena.space
    }

    /// Returns a slab's descriptor.
    pub(crate) fn slab(&self, id: ExtentId) -> &Slab {
        &self.space().extent(id).data
    }

    /// Returns true if the slab is attached to the cache. The caller holds the lock (sl-H2), or has
    /// an object that keeps the slab attached.
    pub(crate) fn is_attached(&self, id: ExtentId) -> bool {
        self.cache_id.is_attached(self.space().extent(id))
    }

    /// Returns access to a slab that the calling thread owns.
    ///
    /// # Panics
    /// If the thread does not own the slab.
    pub(crate) fn of_thread<'t>(&'t self, own: &'t ThreadSlabs, id: ExtentId) -> SlabRef<'t> {
        let owner = self.slab(id).owner();
        assert!(owner == own.number() && self.is_attached(id), "sl-K3: {id:?} is of {owner}");
        // SAFETY: only the thread itself has the records of its slabs (sl-M1), so the calling
        // thread is this thread. The calling thread owns the slab, so it is allowed to access the
        // slab (sl-K3).
        unsafe { self.detached(id) }
    }

    /// Returns access to a slab.
    ///
    /// # Safety
    /// The slab was laid out for this cache. While the result exists, the caller has exclusive
    /// access to the slab: the slab is new, or unlinked to be freed, or accessible by sl-K3.
    pub(crate) unsafe fn detached(&self, id: ExtentId) -> SlabRef<'_> {
        // SAFETY: the caller guarantees the slab's shape and exclusive access.
        unsafe { SlabRef::new(self.slab(id), &self.shape) }
    }

    /// Returns the slab that contains an object's address, and the object's number in the slab.
    pub(crate) fn locate(&self, object: NonNull<u8>) -> Result<Location<'_>, Error> {
        let address = object.addr().get();
        let foreign = Error::Foreign { address };
        let (id, extent) = self.arena.slab_at(object).ok_or(foreign)?;
        let index = self.index_in(extent, object).ok_or(foreign)?;
        Ok((id, extent, index))
    }

    /// Returns the number of the object at an address. Returns `None` if the slab has no such
    /// object, or is not attached to this cache. Without the lock, the result is reliable only for
    /// live objects.
    pub(crate) fn index_in(&self, extent: &Extent<Slab>, object: NonNull<u8>) -> Option<usize> {
        // If the extent contains no slab, `first` is 0, so the distance exceeds the span of any
        // slab.
        let at = object.addr().get().wrapping_sub(extent.data.first().addr());
        if self.cache_id.is_attached(extent) { self.divider.index(at) } else { None }
    }

    /// Records an object that must never be allocated again.
    pub(crate) fn quarantine(&self, object: NonNull<u8>) {
        let quarantined = &mut self.lock().state.quarantined;
        let address = object.addr().get();
        // If no memory is available for the record, the object counts as live.
        if !quarantined.contains(&address) && quarantined.try_reserve(1).is_ok() {
            quarantined.push(address);
        }
    }
}

/// A cache whose lock is held.
pub(crate) struct Locked<'d> {
    pub(crate) depot: &'d Depot,
    state: MutexGuard<'d, State>,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Locked<'_> {
    /// Returns access to a slab without an owner. The access lasts while the lock is held.
    ///
    /// # Panics
    /// If a thread owns the slab, or the slab does not belong to the cache.
    pub(crate) fn slab(&self, id: ExtentId) -> SlabRef<'_> {
        let (depot, owner) = (self.depot, self.depot.slab(id).owner());
        let is_shared = matches!(owner, NO_ONE | RESERVE) && depot.is_attached(id);
        assert!(is_shared, "sl-K3: {id:?} is of {owner}");
        // SAFETY: the slab belongs to the cache (sl-H2) and no thread owns it, so the holder of the
        // lock is allowed to access it (sl-K3).
        unsafe { depot.detached(id) }
    }

    /// Attaches a slab to the cache, with the given `owner`.
    ///
    /// # Safety
    /// Either the slab is new and only the caller can reach it, or the slab is attached and no
    /// other thread owns it. After the call, only the owner accesses the slab, or the holder of the
    /// lock if there is no owner (sl-K3).
    pub(crate) unsafe fn attach(&mut self, id: ExtentId, owner: u32) {
        let extent = self.depot.space().extent(id);
        // SAFETY: the caller guarantees its access to the slab, and passes it to the new owner.
        unsafe { extent.data.set_owner(owner) };
        extent.set_tag(self.depot.cache_id.attached_tag());
    }

    /// Removes a slab without an owner from its list and from the cache. After the call only the
    /// caller can reach the slab.
    pub(crate) fn detach(&mut self, id: ExtentId) {
        self.unlink(id);
        self.depot.space().extent(id).set_tag(self.depot.cache_id.tag());
    }

    /// Inserts a slab without an owner into the list that its count determines (sl-C1).
    pub(crate) fn link(&mut self, id: ExtentId) {
        let active = self.slab(id).active();
        let list = List::of(active, self.depot.shape.objects);
        self.state.lists.link(self.depot.space(), id, list, active);
    }

    /// Removes a slab without an owner from its list.
    pub(crate) fn unlink(&mut self, id: ExtentId) {
        let active = self.slab(id).active();
        self.state.lists.unlink(self.depot.space(), id, active);
    }

    /// Moves a slab without an owner to the list that its changed count determines (sl-C1).
    pub(crate) fn relist(&mut self, id: ExtentId) {
        let slab_ref = self.slab(id);
        if List::of(slab_ref.active(), self.depot.shape.objects) != List::of_slab(slab_ref.slab) {
            self.unlink(id);
            self.link(id);
        }
    }

    /// Counts the released pages of a slab without an owner as committed again.
    pub(crate) fn recommit(&self, id: ExtentId) -> Result<(), Error> {
        let slab = self.slab(id).slab;
        self.depot.space().charge(slab.released().count_ones())?;
        slab.set_released(0);
        Ok(())
    }

    /// Returns the number of free objects in the reserve.
    pub(crate) fn reserved(&self) -> usize {
        let free = |&id: &ExtentId| self.depot.shape.objects - self.slab(id).active();
        self.reserve.iter().map(free).sum()
    }
}
