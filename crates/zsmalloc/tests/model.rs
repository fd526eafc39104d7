//! Compares random stores, reads, overwrites and frees with naive models, for pools of handles and
//! of entries.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::sync::Arc;
use testkit::entries::{self, ENTRIES, EntriesModel};
use testkit::geometry::{self, Edges};
use testkit::pool::{self, PoolModel, Report};
use testkit::supply::refuse_every;
use testkit::{Choices, Model, Run, run_any, scaled, seed};
use zsmalloc::{ClassShape, Columns, Config, Content, EntryPool, Error, Geometry, Handle, Pool};

fn config(geometry: Geometry) -> Config {
    Config { geometry, ..Config::default() }
}

fn operate(geometry: Geometry, run: Run) -> Report {
    let report = testkit::run::<PoolModel>(pool::Setup { geometry, refuse: None }, run).unwrap();
    println!("{geometry:?}: {report:?}");
    report
}

#[test]
fn random_operations_match_the_model() {
    for (nth, geometry) in geometry::some().into_iter().enumerate() {
        let (seed, steps) = (seed(nth as u64), scaled(30_000, 900_000));
        let report = operate(geometry, Run { seed, steps, first: 2000, every: 1000 });
        assert!(report.objects_max > 1000 && report.refused > 100, "{report:?}");
        assert!(report.compacted > 100, "{report:?}");
    }
}

fn operate_on_entries(setup: entries::Setup, run: Run) -> entries::Report {
    let report = testkit::run::<EntriesModel>(setup, run).unwrap();
    println!("{:?}: {report:?}", setup.geometry);
    report
}

fn entries(geometry: Geometry) -> entries::Setup {
    entries::Setup { geometry, limit: None, refuse: None }
}

#[test]
fn objects_above_a_page_match_the_model() {
    for (geometry, largest) in geometry::of_blocks().into_iter().zip([16384, 65536].repeat(2)) {
        assert_eq!(Pool::new(config(geometry)).unwrap().largest(), largest);
        let steps = scaled(2000, 60_000);
        operate(geometry, Run { seed: seed(21), steps, first: 0, every: 100 });
    }
}

/// Tests random geometries, with requests that are refused.
#[test]
fn any_pool_matches_the_model() {
    (200..scaled(220, 500)).for_each(|nth| _ = run_any::<PoolModel>(nth as u64, 1000));
}

#[test]
fn slots_above_a_page_match_the_model() {
    for geometry in geometry::of_blocks() {
        let run = Run { seed: seed(22), steps: scaled(3000, 90_000), first: 0, every: 500 };
        operate_on_entries(entries(geometry), run);
    }
}

#[test]
fn slots_match_the_model() {
    for geometry in [geometry::some()[0], geometry::some()[1]] {
        let run = Run { seed: seed(11), steps: scaled(30_000, 900_000), first: 2000, every: 1000 };
        let report = operate_on_entries(entries(geometry), run);
        assert!(report.objects_max > 1000, "{report:?}");
    }
}

/// Tests random geometries and limits, with requests that are refused.
#[test]
fn any_table_matches_the_model() {
    (300..scaled(310, 500)).for_each(|nth| _ = run_any::<EntriesModel>(nth as u64, 1000));
}

#[test]
fn a_pool_at_its_limit_loses_nothing() {
    let of_blocks = geometry::of_blocks().map(|geometry| (geometry, 1600, 4000));
    for (geometry, most, steps) in [(Geometry::default(), 200, 20_000)].into_iter().chain(of_blocks)
    {
        let run = Run { seed: seed(12), steps, first: steps / 10, every: 1000 };
        let setup = entries::Setup { limit: Some(most), ..entries(geometry) };
        let refused = operate_on_entries(setup, run).refused;
        assert!(refused > steps / 20, "the limit was reached {refused} times only");
    }
}

/// An overwrite that needs no more space than the old object never fails because of the limit (I6).
#[test]
fn an_overwrite_of_no_greater_length_succeeds_at_the_limit() {
    let setup = entries::Setup { limit: Some(64), ..entries(Geometry::default()) };
    let mut model = EntriesModel::new(&setup).unwrap();
    let edges = Edges::of(&model.pool.table());
    let mut choices = Choices::seeded(seed(13));
    for index in 0..ENTRIES {
        if model.report().refused == 0 {
            let len = edges.draw_possible(&mut choices);
            model.apply(&entries::Event::Write { index, len, flags: 0 });
        }
    }
    assert!(model.report().refused > 0, "the limit was not reached");
    model.overwrite_all();
    model.finish();
}

#[test]
fn every_refusal_is_an_error_and_loses_nothing() {
    let seed = seed(14);
    for geometry in [geometry::some()[0], geometry::some()[1]] {
        for from_then_on in [false, true] {
            refuse_every(from_then_on, |refuse| {
                let setup = entries::Setup { refuse: Some(refuse), ..entries(geometry) };
                let run = Run { seed, steps: 80, first: 0, every: 10 };
                Some(testkit::run::<EntriesModel>(setup, run)?.requests)
            });
        }
    }
}

#[test]
fn every_refusal_leaves_handles_as_they_were() {
    let seed = seed(16);
    for geometry in [geometry::some()[0], geometry::some()[1]] {
        for from_then_on in [false, true] {
            refuse_every(from_then_on, |refuse| {
                let setup = pool::Setup { geometry, refuse: Some(refuse) };
                let run = Run { seed, steps: 120, first: 0, every: 3 };
                Some(testkit::run::<PoolModel>(setup, run)?.requests)
            });
        }
    }
}

/// Objects of every size are stored in every slot of a zspage, and the bytes of each object stay
/// unchanged.
#[test]
fn every_size_fills_a_whole_zspage() {
    for geometry in [geometry::some()[0], geometry::some()[1]] {
        let pool = Pool::new(config(geometry)).unwrap();
        let fill = |nth: usize, size: usize| vec![(nth * 31 + size) as u8; size];
        for size in 1..=4096usize {
            let position = pool.table().position(size).unwrap();
            let shape = pool.table().classes()[position];
            assert!(shape.capacity >= size, "size {size} in {shape:?}");
            let handles: Vec<_> =
                (0..shape.objects).map(|nth| pool.store(&fill(nth, size)).unwrap()).collect();
            expect_full(&pool, size, shape);
            for (nth, handle) in handles.into_iter().enumerate() {
                let read = pool.read(&handle).unwrap();
                assert!(*read == fill(nth, size), "size {size} object {nth}");
                drop(read);
                pool.free(handle).unwrap();
            }
        }
        pool.trim();
        pool.check();
        assert_eq!(pool.pages().used(), 0);
    }
}

/// Asserts that the objects of one size fill one zspage of their class. In the native geometry, the
/// objects can also lie in larger classes.
fn expect_full(pool: &Pool, size: usize, shape: ClassShape) {
    let classes = pool.classes();
    let used: Vec<_> = classes.iter().filter(|stat| stat.obj_used > 0).collect();
    let objects: u64 = used.iter().map(|stat| stat.obj_used).sum();
    assert_eq!(objects, shape.objects as u64, "size {size}");
    assert!(used.iter().all(|stat| stat.shape.size >= shape.size), "size {size}: {used:?}");
    if let Geometry::Kernel(_) = pool.table().geometry() {
        assert_eq!((used.len(), used[0].shape), (1, shape), "size {size}");
        assert_eq!(used[0].groups[11], 1, "size {size}");
        assert_eq!(used[0].groups[1..11], [0; 10], "size {size}");
    }
}

#[test]
fn sizes_out_of_range_are_refused() {
    let pool = Pool::new(Config::default()).unwrap();
    assert_eq!(pool.store(&[]), Err(Error::Size { size: 0, max: 4096 }));
    assert_eq!(pool.store(&[0; 4097]), Err(Error::Size { size: 4097, max: 4096 }));
    assert!(pool.is_empty());
    pool.check();
}

#[test]
fn foreign_and_invented_handles_are_refused() {
    let pool = Pool::new(Config::default()).unwrap();
    let other = Pool::new(Config::default()).unwrap();
    let handle = pool.store(b"mine").unwrap();
    assert!(matches!(other.read(&handle), Err(Error::Handle { .. })));
    assert!(Handle::from_raw(0).is_err());
    let mut rng = Rng::with_seed(seed(15));
    for _ in 0..100_000 {
        let raw = rng.u64(1..);
        let invented = Handle::from_raw(raw).unwrap();
        if invented != handle {
            assert_eq!(pool.free(invented), Err(Error::Handle { raw }));
        }
    }
    assert_eq!(&*pool.read(&handle).unwrap(), b"mine");
    // A handle slot that is used a million times accepts no handle of its earlier generations.
    let raw = handle.into_raw();
    pool.free(Handle::from_raw(raw).unwrap()).unwrap();
    for _ in 0..1_100_000 {
        let handle = pool.store(b"x").unwrap();
        assert_ne!(handle, Handle::from_raw(raw).unwrap());
        pool.free(handle).unwrap();
    }
    assert!(pool.read(&Handle::from_raw(raw).unwrap()).is_err());
    pool.check();
}

#[test]
fn threads_share_a_pool() {
    share_a_pool(0);
    share_a_pool(4);
}

/// Shares a pool of objects of up to 4096 << `order` bytes among threads. If objects are large, the
/// threads store fewer objects.
fn share_a_pool(order: u32) {
    let core =
        EntryPool::new(config(Geometry::Native { order }), 4096, Columns::default()).unwrap();
    let core = Arc::new(core);
    core.compact_in_background();
    let mut seeds = Rng::with_seed(seed(31 + order as u64));
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (core, mut rng) = (&core, seeds.fork());
            scope.spawn(move || {
                for version in 0..(20_000 >> order) * scaled(1, 30) as u64 {
                    let index = rng.u32(..4096);
                    if rng.bool() {
                        // The first bytes identify the entry and version, so every reader detects
                        // foreign bytes.
                        let stamp =
                            [(index as u64).to_le_bytes(), (thread << 32 | version).to_le_bytes()];
                        let data = stamp.concat().repeat(rng.usize(1..=256 << order));
                        let staged = core.stage(index, &data).unwrap();
                        core.lock(index).unwrap().replace(staged, 0);
                    } else if let Content::Object { bytes, .. } = core.read(index).content() {
                        let first = &bytes[..16];
                        assert_eq!(first[..8], (index as u64).to_le_bytes());
                        assert!(bytes.chunks(16).all(|chunk| chunk == first), "torn object");
                    }
                    if version % 64 == 0 {
                        core.lock(rng.u32(..4096)).unwrap().set_payload(0);
                    }
                    if version % 1000 == 0 {
                        core.compact();
                    }
                }
            });
        }
    });
    core.stop_background();
    core.check();
    for index in 0..4096 {
        core.lock(index).unwrap().set_payload(0);
    }
    core.trim();
    core.check();
    assert_eq!(core.pages().used(), 0);
}
