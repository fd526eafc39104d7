//! Models of objects' flags. Readers clear flags, marking threads set flags of unlocked entries,
//! and threads that move an object or its entry keep the flags. In one model an object is discarded
//! while a thread reads it. The object's flag must not remain in the entry.
#![allow(clippy::unwrap_used)]

use super::{Actor, Scene, model};
use crate::{Content, Old};

const IDLE: u8 = 0b0100;

impl Scene {
    fn mark(&self, index: u32) -> bool {
        self.core.set_flags_if_unlocked(index, |_, flags, _| flags | IDLE)
    }

    /// Reads the entry and clears the object's flag. Returns the object's first byte.
    fn read_and_unmark(&self, index: u32) -> u8 {
        let pin = self.core.read(index);
        let Content::Object { bytes, flags } = pin.content() else { return 0 };
        if flags & IDLE != 0 {
            pin.clear_flags(IDLE);
        }
        bytes[0]
    }

    /// Returns the entries that hold an object, with their flags.
    fn marks(&self) -> Vec<(u32, u8)> {
        let mut marks = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.core.look_at_some(from, |index, held, _| match held {
                Old::Object { flags, .. } => marks.push((index, flags)),
                Old::Inline(_) => {}
            });
        }
        marks
    }
}

fn two_marked(scene: &Scene) {
    scene.two_half_full();
    assert!(scene.mark(0) && scene.mark(4) && !scene.mark(2));
}

#[test]
fn loom_core_read_against_discard() {
    model(
        5,
        |scene| scene.store(0, 1),
        [
            |scene| assert!(matches!(scene.read(0), 0 | 1)),
            |scene| {
                scene.free(0);
                scene.core.trim();
            },
        ],
        |scene| scene.finish(&[]),
    );
}

#[test]
fn loom_core_unmark_against_compaction() {
    let compact: Actor = |scene| {
        scene.core.compact();
    };
    let reader: Actor = |scene| {
        assert_eq!((scene.read_and_unmark(4), scene.read_and_unmark(0)), (5, 1));
    };
    model(4, two_marked, [compact, reader], |scene| {
        assert_eq!(scene.marks(), [(0, 0), (1, 0), (4, 0), (5, 0)]);
        scene.finish(&[(0, &[1]), (1, &[2]), (4, &[5]), (5, &[6])]);
    });
}

/// No idle flag is set after a write, and a reader of the old object clears no flag of the new
/// object.
#[test]
fn loom_core_unmark_against_writers() {
    let reader: Actor = |scene| assert!(matches!(scene.read_and_unmark(0), 1 | 7 | 8));
    let writer: Actor = |scene| {
        let staged = scene.core.stage(0, &super::bytes(7)).unwrap();
        scene.core.lock(0).unwrap().replace(staged, 0b1000);
        assert!(scene.core.lock(0).unwrap().overwrite(&super::bytes(8), 0b1000).is_ok());
    };
    model(4, two_marked, [reader, writer], |scene| {
        assert_eq!(scene.marks(), [(0, 0b1000), (1, 0), (4, IDLE), (5, 0)]);
        scene.finish(&[(0, &[8]), (1, &[2]), (4, &[5]), (5, &[6])]);
    });
}

/// No thread locks the entries. So the flag of every object is set, even if compaction moves the
/// object.
#[test]
fn loom_core_mark_against_compaction() {
    let compact: Actor = |scene| {
        scene.core.compact();
    };
    let mark: Actor = |scene| assert!(scene.mark(4) && scene.mark(0));
    model(4, Scene::two_half_full, [compact, mark], |scene| {
        assert_eq!(scene.marks(), [(0, IDLE), (1, 0), (4, IDLE), (5, 0)]);
        scene.finish(&[(0, &[1]), (1, &[2]), (4, &[5]), (5, &[6])]);
    });
}
