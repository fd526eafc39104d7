//! Compares random operations with a naive model, which predicts the place of each object and the
//! committed pages. The bytes of every object are checked too.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use page::{RefuseNth, page_size};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::Arc;
use testkit::seed;
use zsmalloc::meta::{Cache, CacheStat, Error, MetadataArena};

/// The objects in use of each slab, by the slab's offset, and the retained pages. A retained page
/// is given by its slab and its number in the slab.
#[derive(Default)]
struct Model {
    slabs: BTreeMap<u64, BTreeSet<usize>>,
    retained: BTreeSet<(u64, usize)>,
}

/// A cache, its model and the objects allocated from it, each with the byte that fills it.
struct Subject {
    cache: Cache,
    size: usize,
    live: Vec<(NonNull<u8>, u8)>,
    model: Model,
}

impl Subject {
    fn new(arena: &Arc<MetadataArena>, size: usize, align: usize) -> Self {
        let cache = Cache::new(arena, size, align).unwrap();
        Subject { cache, size, live: Vec::new(), model: Model::default() }
    }

    fn pages_of(&self, index: usize) -> std::ops::RangeInclusive<usize> {
        let start = index * self.cache.geometry().stride;
        start / page_size()..=(start + self.cache.geometry().stride - 1) / page_size()
    }

    fn live_pages(&self) -> BTreeSet<(u64, usize)> {
        let objects = self.model.slabs.iter().flat_map(|(&slab, objects)| {
            objects
                .iter()
                .flat_map(move |&index| self.pages_of(index).map(move |page| (slab, page)))
        });
        objects.collect()
    }

    /// Returns the lowest free object in the model. If `committed` is given, only objects on these
    /// pages are considered.
    fn lowest(&self, committed: Option<&BTreeSet<(u64, usize)>>) -> Option<(u64, usize)> {
        let is_committed = |slab, index| {
            let mut pages = self.pages_of(index).map(|page| (slab, page));
            committed.is_none_or(|all| pages.all(|page| all.contains(&page)))
        };
        self.model.slabs.iter().find_map(|(&slab, used)| {
            let mut objects = 0..self.cache.geometry().objects;
            objects
                .find(|index| !used.contains(index) && is_committed(slab, *index))
                .map(|at| (slab, at))
        })
    }

    fn committed(&self) -> BTreeSet<(u64, usize)> {
        &self.live_pages() | &self.model.retained
    }

    fn offset(&self, (slab, index): (u64, usize)) -> u64 {
        slab + (index * self.cache.geometry().stride) as u64
    }

    fn offset_of(&self, object: NonNull<u8>) -> u64 {
        self.cache.arena().offset_of(object).unwrap()
    }

    /// Returns the slab and index of an allocated object.
    fn place(&self, object: NonNull<u8>) -> (u64, usize) {
        let offset = self.offset_of(object);
        let (&slab, _) = self.model.slabs.range(..=offset).next_back().unwrap();
        (slab, (offset - slab) as usize / self.cache.geometry().stride)
    }

    fn take(&mut self, object: NonNull<u8>, (slab, index): (u64, usize), stamp: u8) {
        // SAFETY: the object has `size` bytes, and only this thread uses it.
        unsafe { object.write_bytes(stamp, self.size) };
        self.live.push((object, stamp));
        assert!(self.model.slabs.entry(slab).or_default().insert(index), "{index} given out twice");
        for page in self.pages_of(index) {
            self.model.retained.remove(&(slab, page));
        }
    }

    fn alloc(&mut self, stamp: u8, is_refused: impl Fn() -> bool) -> Result<(), Error> {
        let lowest = self.lowest(None);
        let fallback = self.lowest(Some(&self.committed()));
        let object = self.cache.alloc()?;
        let offset = self.offset_of(object);
        let place = match lowest {
            Some(place) if self.offset(place) == offset => place,
            Some(_) => {
                assert!(is_refused(), "not the lowest at {offset:#x}");
                fallback.filter(|&place| self.offset(place) == offset).unwrap()
            }
            None => (offset, 0),
        };
        self.take(object, place, stamp);
        Ok(())
    }

    /// Moves an object to a lower offset if the model predicts a move. In a scattered cache the
    /// object moves to the lowest free place, otherwise to the lowest free place on committed
    /// pages.
    fn move_down(&mut self, nth: usize, is_refused: impl Fn() -> bool) {
        let (object, stamp) = self.live[nth];
        let end = self.offset_of(object);
        let lower = |place: Option<_>| place.filter(|&place| self.offset(place) < end);
        let committed = lower(self.lowest(Some(&self.committed())));
        let lowest = if self.cache.is_scattered() { lower(self.lowest(None)) } else { None };
        let moved = self.cache.alloc_before(object);
        let is_there = |place: Option<_>| {
            moved.map(|at| self.offset_of(at)) == place.map(|at| self.offset(at))
        };
        let place = lowest.or(committed);
        let place = if is_refused() && !is_there(place) { committed } else { place };
        assert!(is_there(place), "{moved:?} is not at {place:?}");
        if let (Some(moved), Some(place)) = (moved, place) {
            self.take(moved, place, stamp);
            self.free(nth);
        }
    }

    fn free(&mut self, nth: usize) {
        let (object, stamp) = self.live.swap_remove(nth);
        self.compare(object, stamp);
        let (slab, index) = self.place(object);
        // SAFETY: the object was removed from `live`, so it is not used again.
        unsafe { self.cache.free(object).unwrap() };
        self.model.slabs.get_mut(&slab).unwrap().remove(&index);
        let live = self.live_pages();
        let emptied = self.pages_of(index).map(|page| (slab, page));
        self.model.retained.extend(emptied.filter(|page| !live.contains(page)));
        self.release(live.len(), |committed| 2.max(committed / 64));
    }

    /// Releases the highest retained pages in the model, until at most `most(committed pages)`
    /// retained pages are left. Returns the number of pages released.
    fn release(&mut self, live: usize, most: impl Fn(usize) -> usize) -> usize {
        let before = self.model.retained.len();
        while self.model.retained.len() > most(live + self.model.retained.len()) {
            self.model.retained.pop_last();
        }
        let retained = &self.model.retained;
        let is_kept = |slab: u64| retained.range((slab, 0)..=(slab, 16)).next().is_some();
        self.model.slabs.retain(|&slab, objects| !objects.is_empty() || is_kept(slab));
        before - self.model.retained.len()
    }

    fn shrink(&mut self) {
        let live = self.live_pages().len();
        let went = self.release(live, |_| 0);
        assert_eq!(self.cache.shrink(), went);
    }

    fn compare(&self, object: NonNull<u8>, stamp: u8) {
        // SAFETY: this is a live object of `size` bytes, which `take` filled.
        let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), self.size) };
        assert!(bytes.iter().all(|&byte| byte == stamp), "object {object:?} has foreign bytes");
    }

    fn check(&self) {
        self.cache.check();
        let expected = CacheStat {
            active_objects: self.live.len(),
            objects: self.model.slabs.len() * self.cache.geometry().objects,
            slabs: self.model.slabs.len(),
            pages: self.committed().len(),
            retained: self.model.retained.len(),
        };
        assert_eq!(self.cache.stat(), expected);
        for &(object, stamp) in &self.live {
            self.compare(object, stamp);
        }
    }

    fn step(&mut self, stamp: u8, filling: bool, random: &mut Rng, is_refused: impl Fn() -> bool) {
        let victim = random.usize(..self.live.len().max(1));
        match random.usize(..100) {
            _ if self.live.is_empty() => drop(self.alloc(stamp, is_refused)),
            0 => self.shrink(),
            1..20 => self.move_down(victim, is_refused),
            share if (share < 80) == filling => drop(self.alloc(stamp, is_refused)),
            _ => self.free(victim),
        }
    }
}

#[test]
fn random_operations_match_the_model() {
    for own in 1..=3 {
        let mut random = Rng::with_seed(seed(own));
        let arena = MetadataArena::new(page::Config::default()).unwrap();
        let shapes =
            [(8, 8), (16, 16), (48, 16), (200, 8), (800, 8), (3072, 8), (4096, 4096), (5000, 8)];
        let mut subjects: Vec<_> =
            shapes.iter().map(|&(size, align)| Subject::new(&arena, size, align)).collect();
        for step in 0..15_000usize {
            let nth = random.usize(..shapes.len());
            // The cache is filled and drained in turn, so that slabs become full and empty, and are
            // destroyed.
            let filling = step / 2500 % 2 == 0;
            subjects[nth].step(step as u8, filling, &mut random, || false);
            if step < 2000 || step % 100 == 0 {
                subjects[nth].check();
                arena.check();
            }
        }
        for subject in &mut subjects {
            while !subject.live.is_empty() {
                subject.free(0);
            }
            subject.check();
            subject.shrink();
            assert_eq!(subject.cache.stat(), CacheStat::default());
        }
        arena.check();
    }
}

#[test]
fn every_refusal_is_an_error_and_loses_nothing() {
    let seed = seed(3);
    for from_then_on in [false, true] {
        for nth in 1.. {
            let supply = Arc::new(RefuseNth::new(nth, from_then_on));
            let config = page::Config { supply: Some(supply.clone()), ..page::Config::default() };
            let arena = MetadataArena::new(config).unwrap();
            let mut subject = Subject::new(&arena, 1000, 8);
            let mut random = Rng::with_seed(seed);
            let is_refused = || supply.requests() >= nth;
            for step in 0..150 {
                subject.step(step, step % 50 < 30, &mut random, is_refused);
                subject.check();
                arena.check();
            }
            if supply.requests() < nth {
                break;
            }
        }
    }
}

#[test]
fn a_refused_page_is_made_up_for_by_a_committed_one() {
    let arena =
        MetadataArena::new(page::Config { limit: Some(4), ..page::Config::default() }).unwrap();
    let cache = Cache::new(&arena, page_size() / 2, 8).unwrap();
    let objects: Vec<_> = (0..8).map(|_| cache.alloc().unwrap()).collect();
    assert!(matches!(cache.alloc(), Err(Error::Pages(page::Error::Limit { .. }))));
    // Page 0 is released. The free object on page 3 is not the lowest free object, but lies on a
    // committed page.
    for &object in &objects[..2] {
        // SAFETY: the object is not used again.
        unsafe { cache.free(object).unwrap() };
    }
    assert_eq!(cache.shrink(), 1);
    // SAFETY: the object is not used again.
    unsafe { cache.free(objects[7]).unwrap() };
    let other = Cache::new(&arena, page_size(), 8).unwrap();
    other.alloc().unwrap();
    assert_eq!(cache.alloc(), Ok(objects[7]));
    cache.check();
    arena.check();
}

#[test]
fn offsets_name_objects() {
    let arena = MetadataArena::new(page::Config::default()).unwrap();
    let cache = Cache::new(&arena, 16, 16).unwrap();
    for _ in 0..1000 {
        let object = cache.alloc().unwrap();
        let offset = arena.offset_of(object).unwrap();
        assert_eq!(offset % 16, 0);
        assert_eq!(arena.try_address(offset), Some(object));
    }
    assert_eq!(arena.try_address(1 << 40), None);
}
