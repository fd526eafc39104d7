//! Random allocations and frees against a naive model; every object keeps its own bytes.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use page::RefuseNth;
use slab::{Arena, Cache, Error, RawCache};
use std::ptr::NonNull;
use std::sync::Arc;

/// A cache and the objects taken from it, each with the byte that fills it.
struct Subject {
    cache: RawCache,
    size: usize,
    live: Vec<(NonNull<u8>, u8)>,
}

impl Subject {
    fn new(arena: &Arc<Arena>, size: usize, align: usize) -> Self {
        Subject { cache: RawCache::new(arena, size, align).unwrap(), size, live: Vec::new() }
    }

    fn alloc(&mut self, stamp: u8) -> Result<(), Error> {
        let object = self.cache.alloc()?;
        // SAFETY: the object is `size` bytes that this thread alone has.
        unsafe { object.write_bytes(stamp, self.size) };
        self.live.push((object, stamp));
        Ok(())
    }

    fn free(&mut self, nth: usize) {
        let (object, stamp) = self.live.swap_remove(nth);
        self.compare(object, stamp);
        // SAFETY: the object left `live`: no one uses it again.
        unsafe { self.cache.free(object).unwrap() };
    }

    fn compare(&self, object: NonNull<u8>, stamp: u8) {
        // SAFETY: a live object of `size` bytes, filled by `alloc`.
        let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), self.size) };
        assert!(bytes.iter().all(|&byte| byte == stamp), "object {object:?} has foreign bytes");
    }

    fn check(&self) {
        self.cache.check();
        assert_eq!(self.cache.stat().active_objects, self.live.len());
        for &(object, stamp) in &self.live {
            self.compare(object, stamp);
        }
    }
}

#[test]
fn random_operations_match_the_model() {
    for seed in 1..=3 {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let arena = Arena::new(page::Config::default()).unwrap();
        let shapes = [(8, 8), (16, 16), (48, 16), (200, 8), (800, 8), (4096, 4096), (5000, 8)];
        let mut subjects: Vec<_> =
            shapes.iter().map(|&(size, align)| Subject::new(&arena, size, align)).collect();
        for step in 0..15_000usize {
            let nth = random.usize(..shapes.len());
            let subject = &mut subjects[nth];
            // Fill and drain in turn, so that slabs become full, and empty, and go.
            let filling = step / 2500 % 2 == 0;
            if subject.live.is_empty() || (random.usize(..4) > 0) == filling {
                subject.alloc(step as u8).unwrap();
            } else {
                let victim = random.usize(..subject.live.len());
                subject.free(victim);
            }
            if step < 2000 || step % 1000 == 0 {
                subjects[nth].check();
                arena.check();
            }
        }
        for subject in &mut subjects {
            while !subject.live.is_empty() {
                subject.free(0);
            }
            subject.check();
            subject.cache.shrink();
            assert_eq!(subject.cache.stat(), slab::CacheStat::default());
        }
        arena.check();
    }
}

#[test]
fn every_refusal_is_an_error_and_loses_nothing() {
    for nth in 1.. {
        let supply = Arc::new(RefuseNth::new(nth, false));
        let config = page::Config { supply: Some(supply.clone()), ..page::Config::default() };
        let arena = Arena::new(config).unwrap();
        let mut subject = Subject::new(&arena, 1000, 8);
        let mut random = Rng::with_seed(3);
        for step in 0..100 {
            if random.usize(..3) > 0 || subject.live.is_empty() {
                let _ = subject.alloc(step);
            } else {
                let victim = random.usize(..subject.live.len());
                subject.free(victim);
            }
            subject.check();
            arena.check();
        }
        if supply.requests() < nth {
            break;
        }
    }
}

#[test]
fn boxes_free_themselves_from_any_thread() {
    let arena = Arena::new(page::Config::default()).unwrap();
    let cache = Cache::<[u64; 5]>::new(&arena).unwrap();
    for round in 0..50u64 {
        let boxes: Vec<_> = (0..200).map(|n| cache.alloc([round * n; 5]).unwrap()).collect();
        std::thread::spawn(move || {
            for (n, object) in boxes.iter().enumerate() {
                assert_eq!(**object, [round * n as u64; 5]);
            }
        })
        .join()
        .unwrap();
        cache.check();
        assert_eq!(cache.stat().active_objects, 0);
    }
}

#[test]
fn offsets_name_objects() {
    let arena = Arena::new(page::Config::default()).unwrap();
    let cache = RawCache::new(&arena, 16, 16).unwrap();
    for _ in 0..1000 {
        let object = cache.alloc().unwrap();
        let offset = arena.offset_of(object).unwrap();
        assert_eq!(offset % 16, 0);
        assert_eq!(arena.pointer(offset), Some(object));
    }
    assert_eq!(arena.pointer(1 << 40), None);
}
