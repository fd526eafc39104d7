//! Loom models of the queue, with an evicting, a storing and an accessing thread. `make loom` runs
//! them.
#![allow(unsafe_code)]

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A queue, the copies in its slots, and for each block the number of times that the block was
/// taken.
struct Scene {
    queue: Queue,
    data: [UnsafeCell<usize>; 2],
    came: [AtomicU32; 3],
}

impl Scene {
    fn new() -> Arc<Self> {
        let data = std::array::from_fn(|_| UnsafeCell::new(0));
        let came = std::array::from_fn(|_| AtomicU32::new(0));
        Arc::new(Scene { queue: Queue::new(2), data, came })
    }

    /// Offers a block if the queue has space. Only one thread calls this function.
    fn offer(&self, block: usize) -> bool {
        let has_room = self.queue.room(1) == 1;
        if has_room {
            // SAFETY: loom provides the pointer and checks the access.
            self.queue
                .offer(block, |slot| self.data[slot].with_mut(|data| unsafe { *data = block }));
        }
        has_room
    }

    fn look(&self, taken: &Taken<'_>) {
        // SAFETY: loom provides the pointer and checks the access.
        let data = self.data[taken.slot].with(|data| unsafe { *data });
        assert_eq!(data, taken.block, "a slot has another block's data");
        self.came[taken.block].fetch_add(1, Ordering::Relaxed);
    }

    fn store_all(&self) {
        while let Some(taken) = self.queue.take() {
            self.look(&taken);
        }
    }

    fn check(&self, offered: &[bool]) {
        self.store_all();
        assert!(self.queue.is_done() && self.queue.room(2) == 2);
        for (came, offered) in self.came.iter().zip(offered) {
            assert_eq!(came.load(Ordering::Relaxed), u32::from(*offered), "came once if offered");
        }
    }
}

/// A thread fills slots again while another thread empties them. Each block is taken exactly once.
#[test]
fn loom_offers_against_take() {
    loom::model(|| {
        let scene = Scene::new();
        let other = scene.clone();
        let stores = thread::spawn(move || other.store_all());
        let offered = [0, 1, 2].map(|block| scene.offer(block));
        stores.join().unwrap();
        assert!(offered[0] && offered[1], "there was room for two");
        scene.check(&offered);
    });
}

/// If two threads try to take a block, only one succeeds. The block's slot is then filled again.
#[test]
fn loom_take_back_against_take_and_offer() {
    // Without a bound on preemptions, this model takes minutes, because its three threads have
    // several steps each.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(|| {
        let scene = Scene::new();
        assert!(scene.offer(0));
        let (stores, touches) = (scene.clone(), scene.clone());
        let stores = thread::spawn(move || stores.store_all());
        let touches = thread::spawn(move || {
            if let Some(taken) = touches.queue.take_back(0) {
                touches.look(&taken);
            }
        });
        let offered = [true, scene.offer(1), scene.offer(2)];
        stores.join().unwrap();
        touches.join().unwrap();
        scene.check(&offered);
    });
}
