//! Tests for bugs of other implementations of compressed memory that could also occur here (see
//! docs/past-bugs.md).
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use page::{Request, Supply};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};
use zsmalloc::{
    ChainRule, ClassStat, Columns, Config, Content, EntryPool, Error, Geometry, Handle,
    KernelGeometry, Pool,
};

fn config(geometry: Geometry) -> Config {
    Config { geometry, ..Config::default() }
}

/// Returns bytes that all depend on `stamp`, so that each object is recognizable.
fn stamped(stamp: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|nth| (stamp.wrapping_mul(0x9e37_79b9) ^ nth).to_le_bytes()[0]).collect()
}

/// Returns the native geometry, and the kernel's geometry with every chain length, both rules, and
/// with and without merging.
fn geometries() -> impl Iterator<Item = Geometry> {
    let kernel = (1..=8).flat_map(|chain| {
        [
            (ChainRule::LeastWaste, true),
            (ChainRule::UsedPercent, true),
            (ChainRule::LeastWaste, false),
        ]
        .map(|(rule, merge)| Geometry::Kernel(KernelGeometry { chain, rule, merge, order: 0 }))
    });
    [Geometry::default()].into_iter().chain(kernel)
}

/// Row 11: a class has space for every size that is assigned to it, and objects are stored in the
/// class that a look-up returns.
#[test]
fn every_size_has_room_in_its_class() {
    for geometry in geometries() {
        let pool = Pool::new(config(geometry)).unwrap();
        for len in 1..=4096 {
            let class = pool.table().classes()[pool.table().position(len).unwrap()];
            assert!(len <= class.capacity && class.capacity <= class.size, "{geometry:?} {len}");
            assert!(class.objects * class.size <= class.pages * page::page_size());
            let handle = pool.malloc(len).unwrap();
            let used = pool.classes();
            let used = used.iter().find(|stat| stat.obj_used > 0).unwrap().shape;
            let is_native = matches!(geometry, Geometry::Native { .. });
            assert!(used == class || (is_native && used.size > class.size), "{geometry:?} {len}");
            pool.free(handle).unwrap();
        }
    }
}

/// Row 11: a whole zspage is filled with objects of the largest and the smallest size of every
/// class. No byte of these objects changes, up to the last byte.
#[test]
fn objects_of_a_full_zspage_do_not_overlap() {
    for geometry in geometries() {
        let pool = Pool::new(config(geometry)).unwrap();
        let mut smallest = 1;
        for class in pool.table().classes().to_vec() {
            for len in [smallest, class.capacity] {
                let handles: Vec<_> =
                    (0..class.objects).map(|_| pool.malloc(len).unwrap()).collect();
                for (nth, handle) in handles.iter().enumerate() {
                    pool.write(handle, &stamped(nth as u32 + 1, len)).unwrap();
                }
                for (nth, handle) in handles.into_iter().enumerate() {
                    let read = pool.read(&handle).unwrap();
                    assert!(*read == stamped(nth as u32 + 1, len), "{geometry:?} {len} {nth}");
                    drop(read);
                    pool.free(handle).unwrap();
                }
            }
            smallest = class.capacity + 1;
        }
        pool.trim();
        pool.check();
        assert_eq!(pool.pages().used(), 0);
    }
}

/// Row 2: if several threads write one slot, the slot has only one object, and no object is left
/// after the slot is freed.
#[test]
fn threads_that_write_one_slot_leave_one_object() {
    let core = EntryPool::new(Config::default(), 2, Columns::default()).unwrap();
    thread::scope(|scope| {
        for writer in 0..4u32 {
            let core = &core;
            scope.spawn(move || {
                for version in 0..10_000 {
                    let staged =
                        core.stage(0, &stamped(version, 1 + version as usize % 4096)).unwrap();
                    core.lock(0).unwrap().replace(staged, writer as u8);
                }
            });
        }
    });
    let objects = || core.classes().iter().map(|stat| stat.obj_used).sum::<u64>();
    assert_eq!(objects(), 1);
    core.lock(0).unwrap().set_payload(0);
    core.trim();
    core.check();
    assert_eq!((objects(), core.pages().used()), (0, 0));
}

/// The maximum time for which the concurrent threads of a test wait until an object is moved. On a
/// busy machine the threads could otherwise finish before the mover runs. The full time passes only
/// if no object is moved.
const MOVED_WITHIN: Duration = Duration::from_secs(120);

/// Rows 1, 7 and 8: four threads compact concurrently while other threads store, read and free.
/// Every list is correct after every round.
#[test]
fn compaction_from_four_threads_at_once() {
    for (seed, geometry) in
        [(21, Geometry::default()), (22, Geometry::Kernel(KernelGeometry::default()))]
    {
        const SLOTS: u32 = 600;
        let core = EntryPool::new(config(geometry), SLOTS as u64, Columns::default()).unwrap();
        let mut rng = Rng::with_seed(testkit::seed(seed));
        let mut model = vec![None; SLOTS as usize];
        let begun = Instant::now();
        for round in 0..40u32 {
            let compacting = AtomicBool::new(true);
            let from_one_thread = rng.u32(..SLOTS);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        while compacting.load(Relaxed) {
                            core.compact();
                        }
                    });
                }
                let before = core.pages_compacted();
                let unmoved = || core.pages_compacted() == before && begun.elapsed() < MOVED_WITHIN;
                for _ in (0..).take_while(|&nth| nth < 800 || unmoved()) {
                    let index = (from_one_thread + rng.u32(..SLOTS / 2)) % SLOTS;
                    let held = &mut model[index as usize];
                    match core.read(index).content() {
                        Content::Object { bytes, .. } => assert!(Some(bytes) == held.as_deref()),
                        Content::Inline(_) => assert!(held.is_none()),
                    }
                    if rng.u32(..3) > 0 {
                        let bytes = stamped(round << 16 | index, rng.usize(700..900));
                        let staged = core.stage(index, &bytes).unwrap();
                        core.lock(index).unwrap().replace(staged, 0);
                        *held = Some(bytes);
                    } else {
                        core.lock(index).unwrap().set_payload(0);
                        *held = None;
                    }
                }
                compacting.store(false, Relaxed);
            });
            core.check();
        }
        assert!(core.pages_compacted() > 0, "nothing moved");
        for (index, held) in model.iter().enumerate() {
            match core.read(index as u32).content() {
                Content::Object { bytes, .. } => assert!(Some(bytes) == held.as_deref()),
                Content::Inline(_) => assert!(held.is_none()),
            }
        }
    }
}

/// Rows 1 and 2: threads write in place while another thread moves their objects, and no write is
/// lost.
#[test]
fn stress_writes_in_place_are_not_lost_to_moves() {
    const WRITERS: u32 = 3;
    const EACH: u32 = 200;
    let core =
        EntryPool::new(Config::default(), (WRITERS * EACH) as u64, Columns::default()).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let core = &core;
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(testkit::seed(31 + writer as u64));
                    let mut model = vec![Vec::new(); EACH as usize];
                    let begun = Instant::now();
                    let unmoved = || core.pages_compacted() == 0 && begun.elapsed() < MOVED_WITHIN;
                    for version in (0u32..).take_while(|&nth| nth < 20_000 || unmoved()) {
                        let nth = rng.u32(..EACH);
                        let (index, held) = (writer * EACH + nth, &mut model[nth as usize]);
                        if let Content::Object { bytes, .. } = core.read(index).content() {
                            assert!(bytes == held.as_slice(), "word {index} lost a write");
                        }
                        let word = core.lock(index).unwrap();
                        match rng.u32(..8) {
                            0 => {
                                word.set_payload(0);
                                held.clear();
                            }
                            1..4 if !held.is_empty() => {
                                *held = stamped(version, held.len());
                                assert!(word.overwrite(held, 0).is_ok());
                            }
                            4..7 if !held.is_empty() => {
                                let new = stamped(version, rng.usize(1..=held.len()));
                                word.patch(&new).unwrap();
                                held[..new.len()].copy_from_slice(&new);
                            }
                            _ => {
                                *held = stamped(version, 1500);
                                let staged = word.stage(held).unwrap();
                                word.replace(staged, 0);
                            }
                        }
                    }
                })
            })
            .collect();
        let mover = scope.spawn(|| {
            while !done.load(Relaxed) {
                core.compact();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Relaxed);
        mover.join().unwrap();
    });
    core.check();
    assert!(core.pages_compacted() > 0, "nothing moved");
}

/// Row 9: a pool that contains objects is dropped immediately after threads used the pool.
#[test]
fn pools_are_dropped_right_after_use() {
    for round in 0..1000u32 {
        let core = EntryPool::new(Config::default(), 64, Columns::default()).unwrap();
        thread::scope(|scope| {
            for busy in 0..2u32 {
                let core = &core;
                scope.spawn(move || {
                    for index in busy * 32..busy * 32 + 8 + round % 8 {
                        let staged =
                            core.stage(index, &stamped(index, 100 + index as usize)).unwrap();
                        core.lock(index).unwrap().replace(staged, 0);
                    }
                    core.compact();
                });
            }
        });
        // The object is staged but never published, as after an error in the caller.
        drop(core.stage(3, b"never published").unwrap());
    }
}

/// Row 18: freed bytes are never readable. A new object has only the bytes that were stored in it.
#[test]
fn freed_bytes_are_never_read() {
    let pool = Pool::new(Config::default()).unwrap();
    let lengths = || (1..=4096).step_by(61);
    for _ in 0..3 {
        let full: Vec<_> = lengths()
            .flat_map(|len| [len; 5])
            .map(|len| pool.store(&vec![0xa5; len]).unwrap())
            .collect();
        full.into_iter().for_each(|handle| pool.free(handle).unwrap());
        let new: Vec<_> = lengths().map(|len| (len, pool.malloc(len).unwrap())).collect();
        for (len, handle) in new {
            let bytes = pool.read(&handle).unwrap();
            assert!(bytes.len() == len && bytes.iter().all(|&byte| byte == 0), "{len} bytes");
            drop(bytes);
            pool.free(handle).unwrap();
        }
    }
    pool.check();
}

/// Row 18: an object that becomes shorter in place shows none of its old bytes.
#[test]
fn a_shorter_overwrite_shows_no_old_bytes() {
    let core = EntryPool::new(Config::default(), 1, Columns::default()).unwrap();
    let staged = core.stage(0, &[0xa5; 3000]).unwrap();
    core.lock(0).unwrap().replace(staged, 0);
    assert!(core.lock(0).unwrap().overwrite(&[1; 10], 0).is_ok());
    assert_eq!(core.read(0).content(), Content::Object { bytes: &[1; 10][..], flags: 0 });
    // One byte more than the slot's size is refused, and changes nothing.
    let slot = core.classes().iter().find(|stat| stat.obj_used > 0).unwrap().shape.capacity;
    assert!(core.lock(0).unwrap().overwrite(&vec![2; slot + 1], 0).is_err());
    assert_eq!(core.read(0).content(), Content::Object { bytes: &[1; 10][..], flags: 0 });
    core.check();
}

/// Row 10: a write that fails leaves the old bytes, and no later operation changes them.
#[test]
fn a_failed_write_leaves_the_old_bytes_for_good() {
    let core = EntryPool::new(Config::default(), 64, Columns::default()).unwrap();
    for index in 0..64 {
        let staged = core.stage(index, &stamped(index, 1000)).unwrap();
        core.lock(index).unwrap().replace(staged, 0);
    }
    core.pages().set_limit(Some(core.pages().used()));
    let refused = (0..64).filter(|&index| core.stage(index, &stamped(99, 4096)).is_err()).count();
    assert!(refused > 0, "the limit refused nothing");
    core.trim();
    core.compact();
    core.pages().set_limit(None);
    for index in 0..64 {
        let old = stamped(index, 1000);
        assert_eq!(core.read(index).content(), Content::Object { bytes: &old[..], flags: 0 });
    }
    core.check();
}

/// The limit can be used completely. The last page is committed, and a further page is refused.
#[test]
fn the_last_page_of_a_limit_is_given_out() {
    for geometry in [
        Geometry::default(),
        Geometry::Kernel(KernelGeometry { chain: 1, ..KernelGeometry::default() }),
    ] {
        let pages = page::Config { limit: Some(3), ..page::Config::default() };
        let pool = Pool::new(Config { geometry, pages }).unwrap();
        let stored: Vec<_> = (0..3).map(|_| pool.store(&[7; 4096]).unwrap()).collect();
        assert_eq!(pool.pages().used(), 3);
        assert!(pool.store(&[7; 4096]).unwrap_err().is_limit());
        stored.into_iter().for_each(|handle| pool.free(handle).unwrap());
    }
}

/// A pool at its limit finds free slots on committed pages in any zspage.
#[test]
fn at_the_limit_committed_slots_are_used_first() {
    let pool = Pool::new(Config::default()).unwrap();
    let mut stored: Vec<_> = (0..4).map(|_| pool.store(&[7; 4096]).unwrap()).collect();
    // The lowest slot's page is released. The third slot's page stays retained.
    pool.free(stored.remove(0)).unwrap();
    pool.trim();
    pool.free(stored.remove(1)).unwrap();
    pool.pages().set_limit(Some(pool.pages().used()));
    stored.push(pool.store(&[8; 4096]).unwrap());
    assert!(pool.store(&[9; 4096]).unwrap_err().is_limit());
    pool.check();
    stored.into_iter().for_each(|handle| pool.free(handle).unwrap());
}

/// A handle that refers to no live object is refused immediately, even while the slot's object is
/// being read.
#[test]
fn bad_handles_are_refused_without_waiting_for_readers() {
    let pool = Pool::new(Config::default()).unwrap();
    let stale = pool.store(b"first").unwrap().into_raw();
    pool.free(Handle::from_raw(stale).unwrap()).unwrap();
    let refused = Error::Handle { raw: stale };
    // The handle slot is free, and a handle of its next generation refers to no object yet.
    let next = stale + (1 << 32);
    for bytes in [&b""[..], b"x"] {
        let written = pool.write(&Handle::from_raw(next).unwrap(), bytes);
        assert_eq!(written, Err(Error::Handle { raw: next }));
    }
    let live = pool.store(b"second").unwrap();
    let guard = pool.read(&live).unwrap();
    assert_eq!(pool.write(&Handle::from_raw(stale).unwrap(), b"x"), Err(refused));
    assert_eq!(pool.free(Handle::from_raw(stale).unwrap()), Err(refused));
    assert_eq!(pool.read(&Handle::from_raw(stale).unwrap()).err(), Some(refused));
    assert_eq!(&*guard, b"second");
    drop(guard);
    pool.free(live).unwrap();
}

fn both_geometries() -> [Geometry; 2] {
    [Geometry::default(), Geometry::Kernel(KernelGeometry::default())]
}

/// Stores `count` objects of `len` bytes and frees each object for whose number `goes` returns
/// true. Returns the remaining objects.
fn fragmented(
    pool: &Pool,
    len: usize,
    count: usize,
    goes: impl Fn(usize) -> bool,
) -> Vec<(Handle, Vec<u8>)> {
    let stored: Vec<_> = (0..count)
        .map(|nth| {
            let bytes = stamped(nth as u32, len);
            (pool.store(&bytes).unwrap(), bytes)
        })
        .collect();
    let mut kept = Vec::new();
    for (nth, (handle, bytes)) in stored.into_iter().enumerate() {
        if goes(nth) {
            pool.free(handle).unwrap();
        } else {
            kept.push((handle, bytes));
        }
    }
    pool.trim();
    kept
}

fn every_second(nth: usize) -> bool {
    nth % 2 == 1
}

fn expect(pool: &Pool, kept: &[(Handle, Vec<u8>)]) {
    pool.check();
    for (nth, (handle, bytes)) in kept.iter().enumerate() {
        assert!(*pool.read(handle).unwrap() == *bytes, "object {nth}");
    }
}

/// Returns the statistics of the class in which most objects of `len` bytes lie.
fn class_of(pool: &Pool, len: usize) -> ClassStat {
    let first = pool.table().position(len).unwrap();
    let classes = pool.classes();
    let near = classes.iter().skip(first).take_while(|stat| stat.shape.size < len + len / 4 + 64);
    // If several classes have the same number of objects, the smallest class is chosen.
    *near.max_by_key(|stat| (stat.obj_used, usize::MAX - stat.shape.size)).unwrap()
}

/// Returns the number of objects and pages of the classes of `sizes`.
fn in_classes(pool: &Pool, sizes: std::ops::Range<usize>) -> (u64, u64) {
    let classes = pool.classes();
    let within = || classes.iter().filter(|stat| sizes.contains(&stat.shape.size));
    (within().map(|stat| stat.obj_used).sum(), within().map(|stat| stat.committed).sum())
}

/// Compaction begins with the largest class, and ends as soon as enough pages are free.
#[test]
fn a_little_is_freed_in_the_largest_class_only() {
    for geometry in both_geometries() {
        let pool = Pool::new(config(geometry)).unwrap();
        let small = fragmented(&pool, 100, 20_000, every_second);
        let large = fragmented(&pool, 3000, 2000, every_second);
        let sizes = [0..1000, 1000..5000];
        let before = sizes.clone().map(|sizes| in_classes(&pool, sizes));
        assert!([100, 3000].iter().all(|&len| class_of(&pool, len).freeable() > 0));
        let freed = pool.shrink(1);
        let after = sizes.map(|sizes| in_classes(&pool, sizes));
        assert!(freed > 0);
        assert_eq!(before[0], after[0], "the small class");
        assert_eq!((before[1].0, before[1].1 - freed as u64), after[1]);
        assert!(class_of(&pool, 3000).freeable() > 0, "more was freed than was asked for");
        // A request for the maximum number of bytes frees all pages that can be freed.
        assert!(pool.shrink(usize::MAX) > freed);
        assert!([100, 3000].iter().all(|&len| class_of(&pool, len).freeable() == 0));
        expect(&pool, &small);
        expect(&pool, &large);
    }
}

/// If no object of a zspage can be moved, other zspages are still emptied.
#[test]
fn a_pinned_object_holds_up_no_others() {
    for geometry in both_geometries() {
        for len in [100, 700, 1500, 3000] {
            let pool = Pool::new(config(geometry)).unwrap();
            // The first zspage is the emptiest, with one object left.
            let alone = pool.store(&stamped(77, len)).unwrap();
            let objects = class_of(&pool, len).shape.objects;
            let others: Vec<_> = (1..objects).map(|_| pool.store(&vec![1; len]).unwrap()).collect();
            let kept = fragmented(&pool, len, 8000 - objects, every_second);
            others.into_iter().for_each(|handle| pool.free(handle).unwrap());
            pool.trim();
            let guard = pool.read(&alone).unwrap();
            let at = guard.as_ptr();
            let (before, freeable) = (pool.pages().used(), pool.freeable() / page::page_size());
            let freed = pool.compact();
            assert_eq!(pool.pages().used(), before - freed);
            // The only pages that are allowed to remain are those of the pinned zspage, and those
            // of a partly filled last zspage.
            let pages = class_of(&pool, len).shape.pages;
            let may_stay = if class_of(&pool, len).whole { 2 * pages } else { freeable / 10 + 8 };
            assert!(
                freed > 0 && freed + may_stay >= freeable,
                "{geometry:?} {len}: {freed} of {freeable} pages"
            );
            assert_eq!((guard.as_ptr(), &*guard), (at, &*stamped(77, len)));
            drop(guard);
            expect(&pool, &kept);
            // After the pin is dropped, the object moves like the other objects.
            pool.compact();
            assert_eq!(class_of(&pool, len).freeable(), 0, "{geometry:?} {len}");
            assert_eq!(*pool.read(&alone).unwrap(), stamped(77, len));
            expect(&pool, &kept);
        }
    }
}

/// A pool at its limit can be compacted, although compaction needs pages. This holds even if the
/// lowest free slots, to which objects move, have no pages.
#[test]
fn compaction_at_the_limit_frees_pages() {
    for (geometry, in_halves) in both_geometries().into_iter().flat_map(|g| [(g, false), (g, true)])
    {
        for len in [40, 100, 700, 1500, 3000] {
            let pool = Pool::new(config(geometry)).unwrap();
            let objects = class_of(&pool, len).shape.objects;
            let lower_half = |nth: usize| in_halves && nth % objects < objects / 2;
            let kept = fragmented(&pool, len, 8000, |nth| every_second(nth) || lower_half(nth));
            let (used, freeable) = (pool.pages().used(), pool.freeable() / page::page_size());
            pool.pages().set_limit(Some(used));
            let freed = pool.compact();
            let which = format!("{geometry:?} {len} {in_halves}: {freed} of {freeable} pages");
            assert!(freed > 0 && freed >= freeable / 2, "{which}");
            assert_eq!(pool.pages().used(), used - freed, "{which}");
            // The pool now has room for an object that it refused before.
            let block = pool.store(&[1; 4096]).unwrap();
            expect(&pool, &kept);
            pool.free(block).unwrap();
        }
    }
}

/// The channel of requests to the other thread, and the channel of that thread's answers.
type Other = (Sender<()>, Receiver<[usize; 2]>);

/// A supply that, once armed, delays a commit until another thread has answered.
#[derive(Debug)]
struct Halting {
    ask: Mutex<Option<Other>>,
    answer: Mutex<Option<[usize; 2]>>,
}

impl Supply for Halting {
    fn grant(&self, _: Request) -> bool {
        if let Some((ask, answered)) = self.ask.lock().unwrap().take() {
            ask.send(()).unwrap();
            // The timeout is much longer than an immediate answer takes. The full time passes only
            // if the test fails.
            *self.answer.lock().unwrap() = answered.recv_timeout(Duration::from_secs(120)).ok();
        }
        true
    }
}

/// Row 8: while one thread compacts, two requests of another thread to compact return immediately.
#[test]
fn a_second_compactor_is_sent_away_at_once() {
    let supply = Arc::new(Halting { ask: Mutex::new(None), answer: Mutex::new(None) });
    let pages = page::Config { supply: Some(supply.clone()), ..page::Config::default() };
    let core =
        EntryPool::new(Config { pages, ..Config::default() }, 4000, Columns::default()).unwrap();
    let store = |core: &EntryPool, index: u32| {
        let staged = core.stage(index, &stamped(index, 1000)).unwrap();
        core.lock(index).unwrap().replace(staged, 0);
    };
    (0..4000).for_each(|index| store(&core, index));
    // Runs of objects are freed, so that the slot to which the first object moves has no page, and
    // the mover must request a page.
    let is_gone = |index: u32| index / 16 % 2 == 1;
    (0..4000).filter(|&index| is_gone(index)).for_each(|index| {
        core.lock(index).unwrap().set_payload(0);
    });
    core.trim();
    let ((ask, asked), (answer, answered)) = (mpsc::channel(), mpsc::channel());
    *supply.ask.lock().unwrap() = Some((ask, answered));
    thread::scope(|scope| {
        let core = &core;
        scope.spawn(move || {
            asked.recv().expect("compaction asked for no page");
            // If the answer is too late, no thread receives it, and the send fails.
            let _ = answer.send([(); 2].map(|()| core.shrink(usize::MAX)));
        });
        assert!(core.compact() > 0);
        drop(supply.ask.lock().unwrap().take());
    });
    assert_eq!(*supply.answer.lock().unwrap(), Some([0, 0]));
    core.check();
    for index in (0..4000).filter(|&index| !is_gone(index)) {
        let bytes = stamped(index, 1000);
        assert_eq!(core.read(index).content(), Content::Object { bytes: &bytes[..], flags: 0 });
    }
}

/// A supply that refuses all requests while the pool has more than `most` pages.
#[derive(Debug, Default)]
struct Tight {
    pool: OnceLock<Weak<Pool>>,
    most: AtomicUsize,
}

impl Supply for Tight {
    fn grant(&self, _: Request) -> bool {
        let pool = self.pool.get().and_then(Weak::upgrade);
        pool.is_none_or(|pool| pool.pages().used() <= self.most.load(Relaxed))
    }
}

/// If a supply limits all memory, retained pages are released before a store fails. The same holds
/// if the supply refuses memory for the header of a zspage.
#[test]
fn ready_pages_go_before_a_store_is_refused() {
    let tight = Arc::new(Tight::default());
    tight.most.store(usize::MAX, Relaxed);
    let mut config = config(Geometry::default());
    config.pages.supply = Some(tight.clone());
    let pool = Arc::new(Pool::new(config).unwrap());
    tight.pool.set(Arc::downgrade(&pool)).unwrap();
    let handles: Vec<_> = (0..6).map(|_| pool.store(&[1; 4000]).unwrap()).collect();
    handles.into_iter().for_each(|handle| pool.free(handle).unwrap());
    let ready = pool.pages().used();
    assert!(ready > 0, "some pages are kept ready");
    tight.most.store(ready - 1, Relaxed);
    let kept = pool.store(&[2; 100]).unwrap();
    assert!(pool.pages().used() < ready);
    pool.free(kept).unwrap();
    pool.check();
}

/// Before the fix, flags of more than four bits overwrote the length of the object.
#[test]
fn flags_leave_the_length_alone() {
    let pool = EntryPool::new(Config::default(), 1, Columns::default()).unwrap();
    pool.lock(0).unwrap().store(&[7; 100], 0b1111).unwrap();
    let refused = |change: &dyn Fn()| {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(change)).is_err());
    };
    refused(&|| {
        let _ = pool.lock(0).unwrap().store(&[7; 100], 16);
    });
    refused(&|| {
        let _ = pool.lock(0).unwrap().store(&[7; 3000], 255);
    });
    refused(&|| pool.lock(0).unwrap().set_flags(16));
    refused(&|| pool.read(0).clear_flags(16));
    refused(&|| {
        pool.set_flags_if_unlocked(0, |_, _, _| 16);
    });
    assert_eq!(pool.read(0).content(), Content::Object { bytes: &[7; 100][..], flags: 0b1111 });
    pool.check();
}

/// `u32::MAX` marks withheld slots, so no entry has this number.
#[test]
fn nothing_is_staged_for_an_entry_that_cannot_be() {
    let pool = EntryPool::new(Config::default(), 8, Columns::default()).unwrap();
    for index in [8, u32::MAX] {
        assert!(matches!(pool.stage(index, &[7; 100]), Err(Error::Index { len: 8, .. })));
    }
    pool.check();
}

/// A supply that refuses requests of one kind.
#[derive(Debug)]
struct Without(fn(Request) -> bool);

impl Supply for Without {
    fn grant(&self, request: Request) -> bool {
        !(self.0)(request)
    }
}

/// Before the fix, a refusal of address space by a supply was reported as a refusal by the system.
#[test]
fn what_a_supply_refuses_is_told_from_what_the_system_does() {
    let kinds: [fn(Request) -> bool; 3] = [
        |request| matches!(request, Request::Map { .. }),
        |request| matches!(request, Request::Commit { .. }),
        |request| matches!(request, Request::Allocate { .. }),
    ];
    for (nth, kind) in kinds.into_iter().enumerate() {
        let mut config = config(Geometry::default());
        config.pages.supply = Some(Arc::new(Without(kind)));
        let stored = Pool::new(config).and_then(|pool| pool.store(&[7; 100]).map(drop));
        let refused = stored.expect_err("all need some of each kind");
        assert!(refused.is_refused(), "request {nth}: {refused}");
    }
}

/// Before the fix, entries with numbers beyond the last entry could be found and locked. The node
/// of the last entry has places for these entries.
#[test]
fn no_entry_is_behind_the_last() {
    const LEN: u32 = 300;
    let pool = EntryPool::new(Config::default(), LEN.into(), Columns::default()).unwrap();
    for index in 0..LEN {
        pool.lock(index).unwrap().store(&[7; 100], 0).unwrap();
    }
    for index in [LEN - 1, LEN, LEN + 1, 511, 512, u32::MAX] {
        let is_there = index < LEN;
        assert_eq!(pool.lock_existing(index).is_some(), is_there, "entry {index}");
        assert_eq!(pool.first_made(index.into()).is_some(), is_there, "from entry {index}");
    }
    pool.check();
}
