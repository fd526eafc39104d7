//! Tests a pool in the child of a fork, while other threads of the parent use the pool (I8).
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Weak};
use testkit::child::in_child;
use testkit::load::Stop;
use testkit::seed;
use zsmalloc::{Columns, Config, Content, EntryPool, Geometry, Handle, KernelGeometry, Pool};

fn data(rng: &mut Rng) -> Vec<u8> {
    let (byte, len) = (rng.u8(..), rng.usize(1..=4096));
    vec![byte; len]
}

/// Stores, writes, frees, compacts and rebalances until `stop` is set.
fn disturb(pool: &Pool, seed: u64, stop: &AtomicBool) {
    let mut rng = Rng::with_seed(seed);
    let mut mine: Vec<(Handle, Vec<u8>)> = Vec::new();
    while !stop.load(Relaxed) {
        match rng.u32(..100) {
            0 => drop(pool.compact()),
            1..5 => drop(pool.rebalance()),
            5..40 if mine.len() < 500 => {
                let data = data(&mut rng);
                mine.push((pool.store(&data).unwrap(), data));
            }
            1..60 if !mine.is_empty() => {
                let (handle, data) = mine.swap_remove(rng.usize(..mine.len()));
                assert!(*pool.read(&handle).unwrap() == data);
                pool.free(handle).unwrap();
            }
            _ if !mine.is_empty() => {
                let nth = rng.usize(..mine.len());
                let (handle, data) = &mut mine[nth];
                data.fill(rng.u8(..));
                pool.write(handle, data).unwrap();
            }
            _ => {}
        }
    }
    for (handle, data) in mine {
        assert!(*pool.read(&handle).unwrap() == data);
        pool.free(handle).unwrap();
    }
}

fn use_pool(pool: &Pool, kept: &[(Handle, Vec<u8>)], seed: u64) {
    pool.check();
    assert!(pool.len() >= kept.len() as u64);
    for (handle, data) in kept {
        assert!(*pool.read(handle).unwrap() == *data);
    }
    let mut rng = Rng::with_seed(seed);
    let more: Vec<_> = (0..300).map(|_| data(&mut rng)).collect();
    let handles: Vec<_> = more.iter().map(|data| pool.store(data).unwrap()).collect();
    pool.compact();
    pool.rebalance();
    for (handle, data) in handles.into_iter().zip(more) {
        assert!(*pool.read(&handle).unwrap() == data);
        pool.free(handle).unwrap();
    }
    pool.rebalance();
    pool.check();
}

#[test]
fn a_child_has_a_whole_copy() {
    for geometry in [Geometry::default(), Geometry::Kernel(KernelGeometry::default())] {
        let pool = Pool::new(Config { geometry, ..Config::default() }).unwrap();
        pool.compact_in_background();
        let mut rng = Rng::with_seed(seed(1));
        let kept: Vec<_> = (0..1000)
            .map(|_| {
                let data = data(&mut rng);
                (pool.store(&data).unwrap(), data)
            })
            .collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            for _ in 0..4 {
                let (pool, stop, seed) = (&pool, &stop, rng.u64(..));
                scope.spawn(move || disturb(pool, seed, stop));
            }
            for round in 0..60 {
                let seed = rng.u64(..);
                in_child(|| {
                    use_pool(&pool, &kept, seed);
                    if round % 20 == 0 {
                        // The pool is also used in a grandchild, which inherits a repaired pool.
                        in_child(|| use_pool(&pool, &kept, seed));
                    }
                });
            }
        });
        pool.check();
        for (handle, data) in kept {
            assert!(*pool.read(&handle).unwrap() == data);
            pool.free(handle).unwrap();
        }
        pool.trim();
        pool.check();
        assert_eq!(pool.pages().used(), 0);
    }
}

#[test]
fn a_forgotten_child_costs_nothing() {
    let pool = Pool::new(Config::default()).unwrap();
    let handle = pool.store(b"untouched").unwrap();
    for _ in 0..50 {
        in_child(|| {});
    }
    assert_eq!(&*pool.read(&handle).unwrap(), b"untouched");
    pool.free(handle).unwrap();
}

/// A child has its own copy of the pool, in which guards from before the fork lock nothing. Guards
/// from before the fork can only be dropped, which has no effect, even before the first use of the
/// pool.
#[test]
fn a_guard_from_before_the_fork_holds_nothing_in_a_child() {
    for in_children in [true, false] {
        let pages = page::Config { in_children, ..page::Config::default() };
        let pool = Pool::new(Config { pages, ..Config::default() }).unwrap();
        let handles = [b"first", b"other"].map(|bytes| pool.store(bytes).unwrap());
        let mut guards = [0, 0].map(|nth| Some(pool.read(&handles[nth]).unwrap()));
        let mut use_in_child = |drop_first: bool| {
            in_child(|| {
                if drop_first {
                    guards.iter_mut().for_each(|guard| drop(guard.take()));
                }
                if in_children {
                    // If the entry still had a reader, this call would wait forever.
                    pool.write(&handles[0], b"FIRST").unwrap();
                }
                for guard in &mut guards {
                    let read = AssertUnwindSafe(|| guard.as_ref().map(|guard| guard[0]));
                    assert_eq!(catch_unwind(read).is_err(), !drop_first);
                    drop(guard.take());
                }
                pool.check();
                if in_children {
                    assert_eq!(&*pool.read(&handles[0]).unwrap(), b"FIRST");
                    assert_eq!(&*pool.read(&handles[1]).unwrap(), b"other");
                    pool.write(&handles[0], b"again").unwrap();
                    pool.check();
                }
            });
        };
        use_in_child(true);
        use_in_child(false);
        for guard in guards {
            assert_eq!(&**guard.as_ref().unwrap(), b"first");
        }
        pool.check();
        handles.into_iter().for_each(|handle| pool.free(handle).unwrap());
    }
}

/// In a child, one thread looks up entries while another thread reads an entry. One of them repairs
/// the pool. The repair resets the counts of lost readers, but the thread that looks up entries is
/// not lost, and remains counted as a reader.
#[test]
fn a_thread_that_looks_for_entries_in_a_child_is_not_lost() {
    let core = Arc::new(EntryPool::new(Config::default(), 1 << 17, Columns::default()).unwrap());
    let weak: Weak<EntryPool> = Arc::downgrade(&core);
    page::fork::register(weak, page::fork::Turn::First);
    // The last leaf of a span, which look-ups find after all other leaves.
    let leaf = 65_024..65_536;
    let set_all = |payload| {
        leaf.clone().for_each(|index| _ = core.lock(index).unwrap().set_payload(payload));
    };
    set_all(7);
    for _ in 0..20 {
        in_child(|| {
            let (looks, stop) = (AtomicU64::new(0), AtomicBool::new(false));
            let begin = Barrier::new(2);
            std::thread::scope(|scope| {
                let _stop = Stop(&stop);
                scope.spawn(|| {
                    begin.wait();
                    while !stop.load(Relaxed) {
                        assert_eq!(core.first_made(0), Some(65_024));
                        looks.fetch_add(1, Relaxed);
                    }
                });
                begin.wait();
                assert_eq!(core.read(65_535).content(), Content::Inline(7));
                while looks.load(Relaxed) < 1000 {
                    std::hint::spin_loop();
                }
            });
            set_all(0);
            // This call would wait forever if a reader had been removed from the count twice.
            assert!(core.rebalance(&mut || true) > 0);
            core.check();
        });
    }
}

/// In a child, pins and exclusive locks from before the fork lock nothing, and staged objects do
/// not exist.
#[test]
fn locks_from_before_the_fork_hold_nothing_in_a_child() {
    let core = Arc::new(EntryPool::new(Config::default(), 100, Columns::default()).unwrap());
    let weak: Weak<EntryPool> = Arc::downgrade(&core);
    page::fork::register(weak, page::fork::Turn::First);
    let store = |index: u32, byte: u8| {
        let staged = core.stage(index, &[byte; 500]).unwrap();
        core.lock(index).unwrap().replace(staged, 0);
    };
    let expect = |index: u32, byte: u8| {
        assert_eq!(
            core.read(index).content(),
            Content::Object { bytes: &[byte; 500][..], flags: 0 }
        );
    };
    (0..20).for_each(|index| store(index, index as u8));
    let mut pinned = Some(core.read(1));
    let mut locked = Some(core.lock(2).unwrap());
    let mut staged = Some(core.stage(3, &[99; 500]).unwrap());
    let mut room = Some(locked.as_ref().unwrap().reserve(&[98; 600]).unwrap());
    for is_used_first in [false, true] {
        in_child(|| {
            if is_used_first {
                (0..20).for_each(|index| expect(index, index as u8));
                // These objects may be stored in the places of the staged objects.
                (20..30).for_each(|index| store(index, index as u8));
            }
            drop((staged.take(), room.take()));
            let is_refused = |work: &dyn Fn()| catch_unwind(AssertUnwindSafe(work)).is_err();
            let pin = pinned.as_ref().unwrap();
            assert!(is_refused(&|| assert!(pin.content() == Content::Inline(0))));
            assert!(is_refused(&|| assert!(pin.row().is_some())));
            pin.clear_flags(15);
            let locked_before = locked.as_ref().unwrap();
            assert!(is_refused(&|| drop(locked_before.reserve(b"bytes"))));
            assert!(is_refused(&|| drop(locked_before.stage(b"bytes"))));
            drop((pinned.take(), locked.take()));
            for byte in [50, 60] {
                (0..20).for_each(|index| store(index, index as u8 + byte));
                (0..20).for_each(|index| expect(index, index as u8 + byte));
                core.compact();
                core.check();
            }
        });
        in_child(|| {
            // A change through a lock from before the fork is refused, and has no effect.
            let (locked, staged) = (locked.take().unwrap(), staged.take().unwrap());
            let replace = AssertUnwindSafe(|| locked.replace(staged, 0));
            assert!(catch_unwind(replace).is_err());
            expect(2, 2);
            core.check();
        });
    }
    drop((pinned, locked, staged, room));
    core.check();
}
