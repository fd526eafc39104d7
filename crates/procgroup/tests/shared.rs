//! Inherited memory is counted once until the parent or the child accesses it (zm-L16).
//!
//! This file contains only one test, because the memory of other tests would be counted too.
//!
//! # Safety
//! The only handler of SIGSEGV passes faults to `answer_fault`, and ends the process if the arena
//! does not handle the fault. Only one thread uses the arena.
#![allow(unsafe_code, clippy::unwrap_used)]

mod support;

use procgroup::GroupMember;
use std::sync::Arc;
use support::{MIB, arena, group};
use testkit::child::Child;
use zmem::{Arena, BackendKind, BlockOrder, Options};

const LIMIT: usize = 32 * MIB;
/// The size of the arena in bytes.
const BYTES: usize = 26 * MIB;

/// An arena whose blocks are all managed.
struct Scene(Arena, Arc<GroupMember>);

impl Scene {
    fn word_at(at: usize, round: usize) -> usize {
        at / 64 + round * 1_000_000_007
    }

    fn write(&self, round: usize) {
        for at in self.0.addresses().step_by(64) {
            // SAFETY: the word is readable and writable, and only this thread uses it.
            unsafe { (at as *mut usize).write_volatile(Self::word_at(at, round)) };
        }
    }

    fn check(&self, round: usize) {
        for at in self.0.addresses().step_by(64) {
            // SAFETY: the word is readable, and only this thread uses it.
            let found = unsafe { (at as *const usize).read_volatile() };
            assert_eq!(found, Self::word_at(at, round), "{at:x}");
        }
    }

    fn held(&self) -> usize {
        self.1.figures(&self.0).tree_held as usize
    }

    /// Checks in a child that little memory is charged to the child, and that the child can
    /// overwrite all of its memory within the limit.
    fn overwrite(&self, child: usize) {
        assert!(self.held() < BYTES / 2, "{}", self.held());
        self.0.check();
        self.check(0);
        for round in 3 * child..3 * child + 3 {
            self.write(round);
            assert!(self.held() < LIMIT, "{}", self.held());
            self.check(round);
        }
        self.0.check();
    }
}

/// If shared pages stayed writable, writes could copy all pages without a fault, and no limit could
/// be kept.
#[test]
fn what_a_child_inherits_counts_once_until_one_of_the_two_touches_it() {
    let kinds = [BackendKind::Signal, BackendKind::SignalMappings, BackendKind::SignalRemap];
    for (backend, order) in kinds.into_iter().zip([4, 0, 1]) {
        let (group, block, limit) = (group(), BlockOrder::Fixed(order), Some(LIMIT as u64));
        let options = Options { backend, block, limit, ..Options::default() };
        let (arena, member) = arena(BYTES, &options, group);
        let scene = Scene(arena, member);
        let addresses = scene.0.addresses();
        scene.write(0);
        assert!((BYTES..LIMIT).contains(&scene.held()), "{backend:?}: {}", scene.held());
        // A fork does not close pinned blocks.
        let pinned = addresses.start..addresses.start + (4096 << order);
        scene.0.pin(pinned.clone()).unwrap();
        let children = [1, 2].map(|child| Child::fork(|| scene.overwrite(child)));
        children.into_iter().for_each(Child::wait);
        scene.0.unpin(pinned).unwrap();
        scene.check(0);
        scene.0.check();
        let most = group.held_max() as usize;
        assert!(most < LIMIT + LIMIT / 4, "{backend:?}: {most}");
        scene.write(20);
        scene.check(20);
    }
}
