//! Loom models of whole pools. The models run the production code with loom's class locks and
//! entries, over real pages.
//!
//! The single class has 4 slots of 3072 bytes in 3 pages (see `native_classes`), so slots 1 and 2
//! straddle pages. If a model has two classes, the other class has 2 slots of 2048 bytes in one
//! page. The contents of an object depend on its version. Every model ends with a check of all
//! invariants.
#![allow(clippy::unwrap_used)]

mod alone;
mod forks;
mod marks;
mod moves;
mod vacant;

use crate::{Columns, Config, Content, EntryPool, Geometry};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

const WORDS: u64 = 8;

struct Scene {
    core: EntryPool,
    /// A count of steps. At each access to this count, loom can switch threads.
    steps: AtomicUsize,
}

/// Objects with this version or a higher version belong to the small class.
const SMALL: u8 = 100;

fn bytes(version: u8) -> Vec<u8> {
    let len = if version < SMALL { 3072u32 } else { 2048 };
    (0..len).map(|nth| version.wrapping_add((nth / 256) as u8)).collect()
}

impl Scene {
    fn new(geometry: Geometry) -> Self {
        let config = Config { geometry, ..Config::default() };
        let core = EntryPool::new(config, WORDS, Columns::default()).unwrap();
        Scene { core, steps: AtomicUsize::new(0) }
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::AcqRel);
    }

    fn store(&self, index: u32, version: u8) {
        let staged = self.core.stage(index, &bytes(version)).unwrap();
        self.core.lock(index).unwrap().replace(staged, 0);
    }

    fn free(&self, index: u32) {
        self.core.lock(index).unwrap().set_payload(0);
    }

    /// Returns the version of the object in entry `index`, or 0 if the entry is empty. Reads the
    /// object twice, and loom can switch threads between the two reads.
    fn read(&self, index: u32) -> u8 {
        let pin = self.core.read(index);
        let Content::Object { bytes: first, .. } = pin.content() else { return 0 };
        let version = first[0];
        assert!(first == bytes(version), "entry {index} is torn");
        self.step();
        let Content::Object { bytes: second, .. } = pin.content() else { unreachable!() };
        assert!(second == bytes(version), "entry {index} changed while it was pinned");
        version
    }

    /// Asserts the contents of the entries and every invariant, frees all objects, and asserts that
    /// no page is left.
    fn finish(&self, versions: &[(u32, &[u8])]) {
        self.core.check();
        let used: u64 = self.core.classes().iter().map(|stat| stat.obj_used).sum();
        let held = versions.iter().filter(|(index, _)| self.read(*index) != 0).count();
        assert_eq!(used as usize, held, "objects without an entry");
        for (index, possible) in versions {
            let version = self.read(*index);
            assert!(possible.contains(&version), "entry {index} has version {version}");
        }
        (0..WORDS as u32).for_each(|index| self.free(index));
        self.core.trim();
        self.core.check();
        assert_eq!(self.core.pages().used(), 0, "pages left");
    }

    /// Creates two zspages with two objects each. The objects of entries 0 and 1 are in one zspage,
    /// and those of entries 4 and 5 are in the other zspage.
    fn two_half_full(&self) {
        (0..6).for_each(|index| self.store(index, index as u8 + 1));
        self.free(2);
        self.free(3);
    }

    /// Creates two zspages with one object each: the objects of entries 0 and 4. A zspage can be
    /// emptied even if a thread has stored one more object that is in no entry yet.
    fn two_sparse(&self) {
        self.two_half_full();
        self.free(1);
        self.free(5);
    }
}

type Actor = fn(&Scene);

/// Explores every interleaving of the actors with at most `preemptions` preemptions, on one class.
fn model<const N: usize>(preemptions: usize, before: Actor, actors: [Actor; N], after: Actor) {
    let make = || Scene::new(Geometry::Native { order: 0 });
    model_of(preemptions, make, before, actors, Scene::step, after);
}

/// Returns the maximum number of preemptions: 2 in `make test`, unlimited in `make long`.
fn depth() -> usize {
    if std::env::var_os("UZRAM_LONG").is_some() { usize::MAX } else { 2 }
}

/// Returns the maximum number of preemptions for a slow model: one in `make test`, `preemptions` in
/// `make long`. A slow model takes at least 10 seconds with two preemptions.
pub(crate) fn slow(preemptions: usize) -> usize {
    if depth() == usize::MAX { preemptions } else { 1 }
}

/// Explores interleavings as [`model`] does, but on two classes, and so with a plan.
fn model_of_two<const N: usize>(
    preemptions: usize,
    before: Actor,
    actors: [Actor; N],
    after: Actor,
) {
    let make = || Scene::new(Geometry::Native { order: 1 });
    model_of(preemptions, make, before, actors, Scene::step, after);
}

/// Explores interleavings as [`model`] does, for any type of scene. Each actor except the first
/// runs on its own thread, and calls `ended` last.
pub(crate) fn model_of<S: Send + Sync + 'static, const N: usize>(
    preemptions: usize,
    make: fn() -> S,
    before: fn(&S),
    actors: [fn(&S); N],
    ended: fn(&S),
    after: fn(&S),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions.min(depth()));
    builder.max_branches = 20_000;
    builder.check(move || {
        // The stack of loom's first thread is too small to create a pool.
        let scene = thread::Builder::new().stack_size(1 << 16);
        let scene = scene.spawn(move || {
            let scene = Arc::new(make());
            before(&scene);
            let others: Vec<_> = actors[1..]
                .iter()
                .map(|&actor| {
                    let scene = scene.clone();
                    let thread = thread::Builder::new().stack_size(1 << 15);
                    thread
                        .spawn(move || {
                            actor(&scene);
                            ended(&scene);
                        })
                        .unwrap()
                })
                .collect();
            actors[0](&scene);
            ended(&scene);
            others.into_iter().for_each(|other| other.join().unwrap());
            after(&scene);
        });
        scene.unwrap().join().unwrap();
    });
}

#[test]
fn loom_core_two_writers_of_one_slot() {
    model(
        5,
        |scene| scene.store(0, 1),
        [|scene| scene.store(0, 2), |scene| scene.store(0, 3)],
        |scene| scene.finish(&[(0, &[2, 3])]),
    );
}

#[test]
fn loom_core_first_objects_of_two_threads() {
    model(
        4,
        |_| (),
        [|scene| scene.store(0, 1), |scene| scene.store(1, 2)],
        |scene| scene.finish(&[(0, &[1]), (1, &[2])]),
    );
}

#[test]
fn loom_core_reader_against_writer() {
    model(
        5,
        |scene| scene.store(0, 1),
        [|scene| assert!(matches!(scene.read(0), 1 | 2)), |scene| scene.store(0, 2)],
        |scene| scene.finish(&[(0, &[2])]),
    );
}

#[test]
fn loom_core_pin_against_move() {
    model(
        4,
        Scene::two_half_full,
        [
            |scene| {
                scene.core.compact();
            },
            |scene| assert_eq!((scene.read(4), scene.read(0)), (5, 1)),
        ],
        |scene| scene.finish(&[(0, &[1]), (1, &[2]), (4, &[5]), (5, &[6])]),
    );
}

#[test]
fn loom_core_free_against_compaction() {
    model(
        slow(4),
        Scene::two_half_full,
        [
            |scene| {
                scene.core.compact();
            },
            |scene| {
                scene.free(0);
                scene.free(4);
            },
        ],
        |scene| scene.finish(&[(1, &[2]), (5, &[6])]),
    );
}

#[test]
fn loom_core_write_against_compaction() {
    model(
        slow(4),
        Scene::two_sparse,
        [
            |scene| {
                scene.core.compact();
            },
            |scene| {
                scene.store(0, 7);
                scene.store(4, 8);
            },
        ],
        |scene| scene.finish(&[(0, &[7]), (4, &[8])]),
    );
}

/// One of the two overwritten objects lies in the zspage that is emptied.
#[test]
fn loom_core_overwrite_against_compaction() {
    let actor: Actor = |scene| {
        for (index, version) in [(0, 7), (4, 8)] {
            let entry = scene.core.lock(index).unwrap();
            assert!(entry.overwrite(&bytes(version), 0).is_ok());
        }
    };
    write_in_place(actor);
}

#[test]
fn loom_core_patch_against_compaction() {
    let actor: Actor = |scene| {
        for (index, version) in [(0, 7), (4, 8)] {
            scene.core.lock(index).unwrap().patch(&bytes(version)).unwrap();
        }
    };
    write_in_place(actor);
}

fn write_in_place(actor: Actor) {
    let compact: Actor = |scene| {
        scene.core.compact();
    };
    model(4, Scene::two_half_full, [compact, actor], |scene| {
        scene.finish(&[(0, &[7]), (1, &[2]), (4, &[8]), (5, &[6])]);
    });
}

/// Pages 1 and 2 are retained. Objects that are stored during the release of these pages must lie
/// on other pages.
#[test]
fn loom_core_release_against_allocation() {
    model(
        5,
        |scene| {
            (0..4).for_each(|index| scene.store(index, index as u8 + 1));
            (1..4).for_each(|index| scene.free(index));
        },
        [
            |scene| {
                scene.core.trim();
            },
            |scene| {
                scene.store(4, 5);
                scene.store(5, 6);
                assert_eq!((scene.read(4), scene.read(5)), (5, 6));
            },
        ],
        |scene| scene.finish(&[(0, &[1]), (4, &[5]), (5, &[6])]),
    );
}

/// The last object of a zspage is freed while other pages of the zspage are being released.
#[test]
fn loom_core_release_against_free() {
    model(
        5,
        |scene| {
            (0..4).for_each(|index| scene.store(index, index as u8 + 1));
            (1..4).for_each(|index| scene.free(index));
        },
        [
            |scene| {
                scene.core.trim();
            },
            |scene| {
                scene.free(0);
                scene.core.trim();
            },
        ],
        |scene| scene.finish(&[]),
    );
}

/// A mover empties a zspage. Another thread releases pages of the zspage, then stores two objects.
#[test]
fn loom_core_release_against_compaction() {
    model(
        4,
        |scene| {
            scene.two_half_full();
            // The zspage with pages to release is now the emptiest zspage.
            scene.free(1);
        },
        [
            |scene| {
                scene.core.trim();
                scene.store(6, 7);
                scene.store(7, 8);
            },
            |scene| {
                scene.core.compact();
            },
        ],
        |scene| scene.finish(&[(0, &[1]), (4, &[5]), (5, &[6]), (6, &[7]), (7, &[8])]),
    );
}

#[test]
fn loom_core_release_against_free_and_allocation() {
    model(
        3,
        |scene| {
            (0..4).for_each(|index| scene.store(index, index as u8 + 1));
            (2..4).for_each(|index| scene.free(index));
        },
        [
            |scene| {
                scene.core.trim();
            },
            |scene| {
                scene.free(1);
                scene.store(5, 6);
            },
            |scene| {
                scene.free(0);
            },
        ],
        |scene| scene.finish(&[(5, &[6])]),
    );
}

/// At the limit, while pages are being released, a store succeeds or fails, but no object is lost.
#[test]
fn loom_core_release_against_store_at_the_limit() {
    model(
        5,
        |scene| {
            (0..4).for_each(|index| scene.store(index, index as u8 + 1));
            (1..4).for_each(|index| scene.free(index));
            scene.core.pages().set_limit(Some(3));
        },
        [
            |scene| {
                scene.core.trim();
            },
            |scene| match scene.core.stage(4, &bytes(5)) {
                Ok(staged) => {
                    scene.core.lock(4).unwrap().replace(staged, 0);
                    assert_eq!(scene.read(4), 5);
                }
                Err(error) => assert!(error.is_limit(), "{error}"),
            },
        ],
        |scene| scene.finish(&[(0, &[1]), (4, &[0, 5])]),
    );
}

/// Both threads compact, one after the other or at the same time.
#[test]
fn loom_core_two_compactions_against_read() {
    model(
        slow(3),
        Scene::two_half_full,
        [
            |scene| {
                scene.core.compact();
            },
            |scene| {
                scene.core.compact();
            },
            |scene| assert_eq!(scene.read(0), 1),
        ],
        |scene| scene.finish(&[(0, &[1]), (1, &[2]), (4, &[5]), (5, &[6])]),
    );
}
