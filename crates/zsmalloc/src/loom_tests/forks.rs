//! Models of the state that a fork copies. A fork holds the locks of all classes, and the child
//! inherits the entries and bytes at the time of the fork.
#![allow(clippy::unwrap_used, unsafe_code)]

use super::{Actor, Scene, bytes, model};
use crate::fork::repaired_or_left_behind;

/// The length of the new object, which is shorter than the old object.
const SHORT: usize = 3000;

/// Asserts that the length in an entry matches the object's bytes, even if another thread has
/// locked the entry.
fn looks_as_a_child(scene: &Scene) {
    let inner = scene.core.inner();
    let held: Vec<_> = inner.classes.iter().map(|class| class.state.lock()).collect();
    let value = repaired_or_left_behind(inner).entries().peek(0, |entry, _| entry.peek());
    let place = value.unwrap().decode().unwrap();
    // SAFETY: the entry refers to the object, and a thread must lock the object's class to write
    // it. This thread holds the class's lock.
    let object = unsafe { inner.memory.read(place.offset, place.len) };
    let version = object[0];
    let len = if version == 7 { SHORT } else { 3072 };
    assert!(object == &bytes(version)[..len], "{} bytes of version {version}", object.len());
    drop(held);
}

fn fork_against(writer: Actor) {
    model(
        4,
        |scene| scene.store(0, 1),
        [looks_as_a_child, writer],
        |scene| {
            scene.core.check();
            looks_as_a_child(scene);
        },
    );
}

#[test]
fn loom_core_fork_against_overwrite() {
    fork_against(|scene| {
        assert!(scene.core.lock(0).unwrap().overwrite(&bytes(7)[..SHORT], 0).is_ok());
        assert!(scene.core.lock(0).unwrap().store(&bytes(8), 0).is_ok());
    });
}

#[test]
fn loom_core_fork_against_patch_and_replace() {
    fork_against(|scene| {
        scene.core.lock(0).unwrap().patch(&bytes(9)).unwrap();
        let staged = scene.core.stage(0, &bytes(7)[..SHORT]).unwrap();
        scene.core.lock(0).unwrap().replace(staged, 0);
    });
}
