//! Models of objects that move to another class because their class is closed, and of headers of
//! zspages that move.
#![allow(clippy::unwrap_used)]

use super::{Actor, SMALL, Scene, bytes, model, model_of_two, slow};

/// Stores two small objects, which are too few to keep their class open.
fn small_class_to_close(scene: &Scene) {
    scene.store(0, SMALL + 1);
    scene.store(1, SMALL + 2);
}

/// Moves objects of a closed class to the other class, concurrently with `actor`. In one run the
/// other class has an object, and so a zspage. In the other run it has no zspage.
fn resettle(preemptions: usize, actor: Actor, after: Actor) {
    let both: Actor = |scene| {
        small_class_to_close(scene);
        scene.store(2, 3);
    };
    let compact: Actor = |scene| {
        scene.core.compact();
    };
    for before in [both, small_class_to_close] {
        model_of_two(preemptions, before, [compact, actor], after);
    }
}

#[test]
fn loom_core_resettle_against_read() {
    resettle(
        4,
        |scene| assert_eq!((scene.read(1), scene.read(0)), (102, 101)),
        |scene| {
            assert!(scene.core.compaction_stat().plans > 0);
            scene.finish(&[(0, &[101]), (1, &[102]), (2, &[0, 3])]);
        },
    );
}

#[test]
fn loom_core_resettle_against_overwrite_and_free() {
    resettle(
        4,
        |scene| {
            assert!(scene.core.lock(1).unwrap().overwrite(&bytes(103), 0).is_ok());
            scene.free(0);
        },
        |scene| scene.finish(&[(1, &[103]), (2, &[0, 3])]),
    );
}

#[test]
fn loom_core_resettle_against_patch() {
    resettle(
        4,
        |scene| {
            scene.core.lock(0).unwrap().patch(&bytes(104)).unwrap();
            scene.core.lock(1).unwrap().patch(&bytes(103)).unwrap();
        },
        |scene| scene.finish(&[(0, &[104]), (1, &[103]), (2, &[0, 3])]),
    );
}

/// One thread stores and frees objects in the class to which objects move.
#[test]
fn loom_core_resettle_against_store() {
    resettle(
        slow(3),
        |scene| {
            scene.store(4, 5);
            scene.store(0, 6);
            scene.free(2);
        },
        |scene| scene.finish(&[(0, &[6]), (1, &[102]), (4, &[5])]),
    );
}

/// With a third small object, it is worthwhile again to keep the class open.
#[test]
fn loom_core_resettle_against_store_into_the_closed_class() {
    resettle(
        slow(3),
        |scene| {
            scene.store(4, SMALL + 5);
            scene.core.compact();
        },
        |scene| scene.finish(&[(0, &[101]), (1, &[102]), (2, &[0, 3]), (4, &[105])]),
    );
}

/// No page can be committed for moved objects, so objects that can't be moved remain in their
/// class.
#[test]
fn loom_core_resettle_at_the_limit() {
    let before: Actor = |scene| {
        small_class_to_close(scene);
        scene.store(2, 3);
        scene.core.pages().set_limit(Some(2));
    };
    let compact: Actor = |scene| {
        scene.core.compact();
    };
    let actor: Actor = |scene| scene.free(1);
    model_of_two(4, before, [compact, actor], |scene| {
        scene.finish(&[(0, &[101]), (2, &[3])]);
    });
}

/// Destroys the first zspage, so that the second zspage's header can move to the place of the first
/// zspage's header.
fn lower_header_free(scene: &Scene) {
    scene.two_half_full();
    scene.free(0);
    scene.free(1);
    scene.core.trim();
}

#[test]
fn loom_core_header_moved_against_free_and_store() {
    model(
        slow(5),
        lower_header_free,
        [
            |scene| {
                scene.core.compact();
            },
            |scene| {
                scene.free(4);
                scene.store(6, 7);
                assert_eq!((scene.read(6), scene.read(5)), (7, 6));
            },
        ],
        |scene| scene.finish(&[(5, &[6]), (6, &[7])]),
    );
}

/// The header moves while pages of its zspage are being released.
#[test]
fn loom_core_header_moved_against_release() {
    model(
        5,
        |scene| {
            lower_header_free(scene);
            scene.free(5);
        },
        [
            |scene| {
                scene.core.compact();
            },
            |scene| {
                scene.core.trim();
                scene.free(4);
                scene.core.trim();
            },
        ],
        |scene| scene.finish(&[]),
    );
}
