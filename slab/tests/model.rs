//! Random operations in every layout, compared with a naive model. Objects must not overlap and
//! must keep their bytes. The counts must agree.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use page::RefuseNth;
use slab::{Arena, Error, Layout, Memory, Options, RawCache, Tunables};
use std::sync::Arc;
use testkit::seed;
use testkit::subject::{Subject, options};
use testkit::wait::until;

#[test]
fn random_operations_match_the_model() {
    let shapes =
        [(1, 1), (8, 8), (48, 16), (100, 4), (512, 64), (3000, 8), (4096, 4096), (20000, 8)];
    for (own, layout) in Layout::ALL.into_iter().enumerate() {
        println!("{layout}");
        let mut random = Rng::with_seed(seed(own as u64));
        let arena = Arena::new(page::Config::default()).unwrap();
        let subject = |nth: usize, (size, align)| {
            Subject::new(&arena, size, align, options(layout, nth as u32 % 3 * 7)).unwrap()
        };
        let mut subjects: Vec<_> =
            shapes.iter().enumerate().map(|(nth, &shape)| subject(nth, shape)).collect();
        for step in 0..40_000usize {
            let nth = random.usize(..subjects.len());
            // Fills and empties the caches in turn, so that slabs become full, become empty, and
            // are reclaimed.
            subjects[nth].step(step as u8, step / 6000 % 2 == 0, &mut random).unwrap();
            if step % 200 == 0 {
                subjects[nth].check();
                arena.check();
            }
        }
        for mut subject in subjects {
            (0..subject.live.len()).for_each(|_| subject.free(0));
            subject.cache.shrink();
            subject.check();
            assert!(subject.cache.stat().slabs <= 3, "those of the reserve");
            subject.cache.destroy().unwrap();
        }
        arena.check();
        assert_eq!(arena.budget().used(), 0);
    }
}

#[test]
fn every_refusal_is_an_error_and_loses_nothing() {
    let seed = seed(1);
    for from_then_on in [false, true] {
        for nth in 1.. {
            let supply = Arc::new(RefuseNth::new(nth, from_then_on));
            let config = page::Config { supply: Some(supply.clone()), ..page::Config::default() };
            let arena = Arena::new(config).unwrap();
            let mut random = Rng::with_seed(seed + nth as u64);
            let Ok(mut subject) = Subject::new(&arena, 1000, 8, options(Layout::Native, 4)) else {
                assert!(supply.requests() >= nth);
                arena.check();
                continue;
            };
            for step in 0..200 {
                let done = subject.step(step, step % 60 < 40, &mut random);
                assert!(done.is_ok() || supply.requests() >= nth);
                subject.check();
            }
            (0..subject.live.len()).for_each(|_| subject.free(0));
            subject.cache.destroy().unwrap();
            arena.check();
            assert_eq!(arena.budget().used(), 0);
            if supply.requests() < nth {
                break;
            }
        }
    }
}

#[test]
fn the_reserve_is_for_those_who_ask_for_it() {
    let arena = Arena::new(page::Config { limit: Some(22), ..page::Config::default() }).unwrap();
    let cache = RawCache::with_options(&arena, 1000, 8, options(Layout::Native, 0)).unwrap();
    let mut objects = Vec::new();
    let refused = loop {
        match cache.alloc() {
            Ok(object) => objects.push(object),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Pages(page::Error::Limit { .. })));
    // The reserve consists of whole slabs.
    let all = cache.stat().reserved;
    assert!(all >= 3);
    let reserved: Vec<_> = (0..all).map(|_| cache.alloc_reserved().unwrap()).collect();
    assert_eq!((cache.alloc_reserved(), cache.stat().reserved), (Err(refused), 0));
    for object in reserved {
        // SAFETY: no code uses the object again.
        unsafe { cache.free(object).unwrap() };
        assert_eq!(cache.alloc(), Err(refused), "what is freed there stays there");
    }
    assert_eq!(cache.stat().reserved, all);
    // SAFETY: no code uses the object again.
    unsafe { cache.free(objects[0]).unwrap() };
    assert_eq!(cache.alloc(), Ok(objects[0]));
    cache.check();
}

#[test]
fn the_table_agrees_with_itself() {
    let arena = Arena::new(page::Config::default()).unwrap();
    let sizes = [512, 256, 192, 96, 64, 128, 32, 192];
    for layout in [Layout::LinkedBufctl, Layout::StackU32, Layout::Native] {
        for (size, count) in sizes.into_iter().zip([1000, 77, 20, 0, 6001, 31, 2000, 1]) {
            let options = Options { layout, ..Options::named(format!("kmalloc-{size}")) };
            let cache =
                RawCache::with_options(&arena, size, slab::line_align(size), options).unwrap();
            let objects: Vec<_> = (0..count).map(|_| cache.alloc().unwrap()).collect();
            let row = cache.slabinfo();
            assert_eq!((row.active_objs, row.num_objs), (count, row.num_slabs * row.objperslab));
            assert!(row.active_slabs >= count.div_ceil(row.objperslab));
            assert_eq!(
                (row.objsize, row.objperslab),
                (cache.shape().stride, cache.shape().objects)
            );
            let text = row.to_string();
            assert_eq!(text.split_whitespace().filter(|word| *word != ":").count(), 14, "{text}");
            assert!(row.json().starts_with(&format!("{{\"name\":\"kmalloc-{size}\",")));
            let leak = cache.destroy();
            assert_eq!(leak.map_or_else(|leak| leak.objects.len(), |()| 0), objects.len());
        }
    }
}

#[test]
fn bad_input_is_named() {
    let arena = Arena::new(page::Config::default()).unwrap();
    let refused = |size, align| RawCache::new(&arena, size, align).map(drop).unwrap_err();
    assert!(matches!(refused(0, 8), Error::Size { size: 0, .. }));
    assert!(matches!(refused(1 << 30, 8), Error::Size { .. }));
    for align in [0, 3, 1 << 20] {
        assert_eq!(refused(8, align), Error::Align { align, page: page::page_size() });
    }
    for (limit, batchcount) in [(4, 5), (4, 0), (0, 1), (1 << 21, 1)] {
        let tunables = Some(Tunables { limit, batchcount });
        let options = Options { tunables, ..Options::default() };
        let made = RawCache::with_options(&arena, 8, 8, options).map(drop);
        assert_eq!(made, Err(Error::Tunables { limit, batchcount }));
    }
    let debug = Options { debug: slab::Debug::On, ..Options::default() };
    let max = 16 * page::page_size();
    assert!(RawCache::new(&arena, max, 8).is_ok());
    assert!(RawCache::with_options(&arena, max, 8, debug).is_err(), "zones take room");
}

#[test]
fn memory_keeps_its_type_as_long_as_a_guard_is_pinned() {
    let arena = Arena::new(page::Config::default()).unwrap();
    let options = Options { memory: Memory::Stable, ..Options::default() };
    let cache = RawCache::with_options(&arena, 4000, 8, options).unwrap();
    let objects: Vec<_> = (0..100).map(|_| cache.alloc().unwrap()).collect();
    let used = arena.budget().used();
    let guard = slab::pin();
    for object in &objects {
        // SAFETY: the objects are only read below, while the guard is pinned.
        unsafe {
            object.write_bytes(7, 4000);
            cache.free(*object).unwrap();
        }
    }
    assert!(cache.shrink() > 0);
    assert!(cache.stat().slabs == 0 && cache.stat().waiting > 0);
    assert_eq!(arena.budget().used(), used);
    // SAFETY: the guard was pinned before the objects were freed, so their memory still belongs to
    // objects.
    assert!(objects.iter().all(|object| unsafe { object.read() } == 7));
    drop(guard);
    // Threads of other tests can still be in an epoch.
    until("what waits is freed", || {
        slab::pin().flush();
        cache.stat().waiting == 0
    });
    assert_eq!((cache.stat().waiting, arena.budget().used()), (0, 0));
    cache.destroy().unwrap();
    arena.check();
}

#[test]
fn shrink_gives_back_pages_on_which_nothing_lives() {
    let arena = Arena::new(page::Config::default()).unwrap();
    for layout in [Layout::Native, Layout::Stack] {
        let mut subject = Subject::new(&arena, 512, 8, options(layout, 64)).unwrap();
        let mut random = Rng::with_seed(seed(1));
        for round in 0..3u8 {
            while subject.live.len() < 8000 {
                subject.alloc(round, false).unwrap();
            }
            let used = arena.budget().used();
            while subject.live.len() > 80 {
                subject.free(random.usize(..subject.live.len()));
            }
            subject.cache.shrink();
            subject.check();
            arena.check();
            let left = arena.budget().used();
            assert!(left <= 80 + 16, "{left} of {used} pages for 80 objects and the reserve");
        }
        (0..80).for_each(|_| subject.free(0));
        subject.cache.destroy().unwrap();
        arena.check();
    }
}

#[test]
fn pages_that_were_given_back_are_counted_again_or_refused() {
    let arena = Arena::new(page::Config::default()).unwrap();
    let cache = RawCache::new(&arena, 512, 8).unwrap();
    let per_slab = cache.shape().objects;
    let objects: Vec<_> = (0..4 * per_slab).map(|_| cache.alloc().unwrap()).collect();
    let (kept, freed): (Vec<_>, Vec<_>) =
        objects.into_iter().enumerate().partition(|(nth, _)| nth % per_slab == 0);
    // SAFETY: no code uses the objects again.
    freed.iter().for_each(|&(_, object)| unsafe { cache.free(object).unwrap() });
    cache.shrink();
    assert_eq!(arena.budget().used(), kept.len(), "a page for each");
    arena.budget().set_limit(Some(kept.len()));
    assert!(matches!(cache.alloc(), Err(Error::Pages(page::Error::Limit { .. }))));
    arena.budget().set_limit(None);
    cache.alloc().unwrap();
    cache.check();
    arena.check();
}
