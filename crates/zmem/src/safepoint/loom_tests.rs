//! Loom models of threads at safepoints, and of a thread that keeps the others there. `make loom`
//! runs them.
#![allow(unsafe_code)]

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The count of threads, and the memory that threads access while they are not at a safepoint.
struct Scene {
    safepoint: Safepoint,
    memory: UnsafeCell<u32>,
    shared: [UnsafeCell<u32>; 2],
}

impl Scene {
    fn new(threads: u32) -> Arc<Self> {
        let safepoint = Safepoint { word: AtomicU32::new(threads) };
        let shared = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Scene { safepoint, memory: UnsafeCell::new(0), shared })
    }

    /// Changes all memory if all other threads are at safepoints. Returns whether they were.
    fn change(&self) -> bool {
        self.change_if(self.safepoint.try_stop())
    }

    /// Does the same as `change`, but waits briefly for other threads.
    fn wait_and_change(&self) -> bool {
        self.change_if(self.safepoint.stop())
    }

    fn change_if(&self, is_alone: bool) -> bool {
        if is_alone {
            // SAFETY: loom provides the pointers, and checks that no other thread accesses the
            // memory.
            self.memory.with_mut(|memory| unsafe { *memory += 1 });
            // SAFETY: loom provides the pointers, and checks the accesses.
            self.shared.iter().for_each(|own| own.with_mut(|own| unsafe { *own += 1 }));
            self.safepoint.resume();
        }
        is_alone
    }

    fn touch(&self, nth: usize) {
        // SAFETY: loom provides the pointer, and checks the access.
        self.shared[nth].with_mut(|own| unsafe { *own += 1 });
    }

    fn wait_in_a_call(&self) {
        self.safepoint.enter();
        thread::yield_now();
        self.safepoint.leave();
    }
}

/// Runs `this` in one thread, and `other` in a second thread, which then ends. Asserts that the
/// first thread is then the only counted thread.
fn beside(this: fn(&Scene), other: fn(&Scene)) {
    loom::model(move || {
        let scene = Scene::new(2);
        let others = Arc::clone(&scene);
        let ends = thread::spawn(move || {
            other(&others);
            others.safepoint.enter();
        });
        this(&scene);
        ends.join().unwrap();
        assert!(scene.change() && scene.wait_and_change(), "the other has ended");
        assert_eq!(scene.safepoint.word.load(Relaxed), 1);
    });
}

/// While a thread keeps the others at safepoints, the others access no memory. A thread that waits
/// to leave its safepoint continues after `resume`.
#[test]
fn loom_a_wait_against_changes() {
    let this = |scene: &Scene| {
        scene.touch(0);
        scene.change();
        scene.change();
    };
    beside(this, |scene| {
        scene.touch(1);
        scene.wait_in_a_call();
        scene.touch(1);
    });
}

/// Each of two threads may keep the other at a safepoint for a time, and then wakes it.
#[test]
fn loom_both_wait_and_change() {
    let this = |scene: &Scene| {
        scene.wait_in_a_call();
        scene.change();
        scene.touch(0);
    };
    beside(this, |scene| {
        scene.wait_in_a_call();
        scene.change();
        scene.touch(1);
    });
}

/// Two threads try at the same time to stop each other. Each attempt can succeed or fail.
#[test]
fn loom_both_stop() {
    let this = |scene: &Scene| {
        scene.touch(0);
        scene.wait_and_change();
        scene.touch(0);
    };
    beside(this, |scene| {
        scene.touch(1);
        scene.wait_and_change();
        scene.touch(1);
    });
}

/// After a failed call of `stop`, threads that wait to leave their safepoints continue.
#[test]
fn loom_a_stop_in_vain() {
    let this = |scene: &Scene| {
        scene.wait_and_change();
        scene.touch(0);
    };
    beside(this, |scene| {
        scene.wait_in_a_call();
        scene.touch(1);
        scene.wait_in_a_call();
        scene.touch(1);
    });
}

/// A new thread is counted before it accesses memory.
#[test]
fn loom_a_thread_begins() {
    loom::model(|| {
        let scene = Scene::new(1);
        assert!(scene.change());
        scene.safepoint.thread_begins();
        let other = Arc::clone(&scene);
        let begins = thread::spawn(move || {
            other.touch(1);
            other.safepoint.enter();
        });
        scene.change();
        scene.touch(0);
        begins.join().unwrap();
        assert!(scene.change());
    });
}
