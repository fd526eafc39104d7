//! Loom models of threads that wait, and one that finds itself alone: `make loom`.
#![allow(unsafe_code)]

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The word, and memory that threads touch which are not at a safepoint.
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

    /// Changes all memory, if this thread is alone. Returns whether it was.
    fn change(&self) -> bool {
        self.change_if(self.safepoint.try_stop())
    }

    /// The same, and waits a moment for others.
    fn wait_and_change(&self) -> bool {
        self.change_if(self.safepoint.stop())
    }

    fn change_if(&self, is_alone: bool) -> bool {
        if is_alone {
            // SAFETY: the pointers are loom's, which checks the accesses.
            self.memory.with_mut(|memory| unsafe { *memory += 1 });
            // SAFETY: as above.
            self.shared.iter().for_each(|own| own.with_mut(|own| unsafe { *own += 1 }));
            self.safepoint.go_on();
        }
        is_alone
    }

    /// Touches a thread's own memory, as its program does.
    fn touch(&self, nth: usize) {
        // SAFETY: as above.
        self.shared[nth].with_mut(|own| unsafe { *own += 1 });
    }

    fn wait_in_a_call(&self) {
        self.safepoint.enter();
        thread::yield_now();
        self.safepoint.leave();
    }
}

/// Nobody touches memory while a thread is alone, and who waits for that goes on.
#[test]
fn loom_a_wait_against_changes() {
    loom::model(|| {
        let scene = Scene::new(2);
        let other = Arc::clone(&scene);
        let waits = thread::spawn(move || {
            other.touch(1);
            other.wait_in_a_call();
            other.touch(1);
            other.safepoint.enter();
        });
        scene.touch(0);
        scene.change();
        scene.change();
        waits.join().unwrap();
        assert!(scene.change(), "the other has ended");
        assert_eq!(scene.safepoint.word.load(Relaxed), 1);
    });
}

/// Each of two may find itself alone, and wakes the other.
#[test]
fn loom_both_wait_and_change() {
    loom::model(|| {
        let scene = Scene::new(2);
        let other = Arc::clone(&scene);
        let changes = thread::spawn(move || {
            other.wait_in_a_call();
            other.change();
            other.touch(1);
            other.safepoint.enter();
        });
        scene.wait_in_a_call();
        scene.change();
        scene.touch(0);
        changes.join().unwrap();
        assert!(scene.change());
    });
}

/// Each stops the other, or has its turn when that goes on; or neither is alone.
#[test]
fn loom_both_stop() {
    loom::model(|| {
        let scene = Scene::new(2);
        let other = Arc::clone(&scene);
        let stops = thread::spawn(move || {
            other.touch(1);
            other.wait_and_change();
            other.touch(1);
            other.safepoint.enter();
        });
        scene.touch(0);
        scene.wait_and_change();
        scene.touch(0);
        stops.join().unwrap();
        assert!(scene.wait_and_change(), "the other has ended");
        assert_eq!(scene.safepoint.word.load(Relaxed), 1);
    });
}

/// One that gives up lets those go on who came back from a call meanwhile.
#[test]
fn loom_a_stop_in_vain() {
    loom::model(|| {
        let scene = Scene::new(2);
        let other = Arc::clone(&scene);
        let waits = thread::spawn(move || {
            other.wait_in_a_call();
            other.touch(1);
            other.wait_in_a_call();
            other.touch(1);
            other.safepoint.enter();
        });
        scene.wait_and_change();
        scene.touch(0);
        waits.join().unwrap();
        assert!(scene.change());
    });
}

/// A thread that is made is counted before it touches anything.
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
