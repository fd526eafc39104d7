//! Loom models of threads that access, evict and zero a block. `make loom` runs them.
#![allow(unsafe_code)]

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The state of a block's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// An access succeeds, and the page holds the data.
    Open,
    /// An access faults, and the page holds the data.
    Closed,
    /// An access faults, because there is no page.
    Absent,
}

/// A block, its page, and whether the block is stored. Only the block's owner uses the page. Only
/// the owner and the evicting thread use `stored`.
struct Scene {
    word: BlockWord,
    page: UnsafeCell<Page>,
    stored: UnsafeCell<bool>,
    zeroed: AtomicU32,
}

impl Scene {
    fn new(state: State, page: Page) -> Arc<Self> {
        let stored = UnsafeCell::new(state == State::Evicted);
        let (page, zeroed) = (UnsafeCell::new(page), AtomicU32::new(0));
        Arc::new(Scene { word: BlockWord::new(state), page, stored, zeroed })
    }

    fn set_page(&self, from: &[Page], to: Page) {
        // SAFETY: loom provides the pointer, and checks that no other thread accesses the page.
        self.page.with_mut(|page| unsafe {
            assert!(from.contains(&*page), "{:?} to {to:?}", *page);
            *page = to;
        });
    }

    fn set_stored(&self, is: bool) {
        // SAFETY: loom provides the pointer, and checks the access.
        self.stored.with_mut(|stored| unsafe { *stored = is });
    }

    fn is_stored(&self) -> bool {
        // SAFETY: loom provides the pointer, and checks the access.
        self.stored.with(|stored| unsafe { *stored })
    }

    /// Models the faults of a thread until the block is resident.
    fn touch(&self) {
        loop {
            let seen = self.word.load();
            match seen.state() {
                State::Resident => return,
                State::Busy => self.word.wait(seen),
                _ if !self.word.try_own(seen) => {}
                State::Probation | State::Evicting | State::Shared => {
                    self.set_page(&[Page::Closed], Page::Open);
                    self.word.publish(State::Resident, |word| word);
                }
                State::Evicted => {
                    assert!(self.is_stored());
                    self.set_page(&[Page::Absent], Page::Open);
                    self.word.publish(State::Resident, |word| word.with_copy(true));
                }
                State::Untouched => {
                    assert_eq!(self.zeroed.load(Ordering::Relaxed), 1);
                    self.set_page(&[Page::Absent], Page::Open);
                    self.word.publish(State::Resident, |word| word);
                }
                state @ (State::Free | State::Plain) => panic!("{state:?}"),
            }
        }
    }

    /// Models an eviction, which opens the block if it is shared, puts it in probation, and stores
    /// it.
    fn evict(&self) {
        let seen = self.word.load();
        if seen.state() == State::Shared && self.word.try_own(seen) {
            self.set_page(&[Page::Closed], Page::Open);
            self.word.publish(State::Resident, |word| word);
        }
        let seen = self.word.load();
        if seen.state() == State::Resident && seen.pins() == 0 && self.word.try_own(seen) {
            self.set_page(&[Page::Open], Page::Closed);
            self.word.publish(State::Probation, |word| word);
        }
        let seen = self.word.load();
        if seen.state() == State::Probation && self.word.try_begin_evicting(seen) {
            self.set_stored(true);
            if self.word.try_end_evicting() {
                self.set_page(&[Page::Closed], Page::Absent);
                self.word.publish(State::Evicted, |word| word.with_copy(false));
            } else {
                self.set_stored(false);
            }
        }
    }

    /// Models `dont_need`.
    fn zero(&self) {
        loop {
            let seen = self.word.load();
            match seen.state() {
                State::Busy => self.word.wait(seen),
                _ if seen.pins() > 0 || !self.word.try_own(seen) => {}
                state => {
                    if state != State::Evicted {
                        self.set_page(&[Page::Open, Page::Closed], Page::Absent);
                    }
                    self.zeroed.store(1, Ordering::Relaxed);
                    self.word.publish(State::Untouched, |word| word);
                    return;
                }
            }
        }
    }

    fn check(&self) {
        // SAFETY: loom provides the pointer, and checks the access.
        let page = self.page.with(|page| unsafe { *page });
        let expected = match self.word.load().state() {
            State::Resident => Page::Open,
            State::Probation => Page::Closed,
            State::Evicted | State::Untouched => Page::Absent,
            state => panic!("{state:?} at the end"),
        };
        assert_eq!(page, expected);
    }
}

/// Returns loom's bound on the preemptions in a model of `threads` threads. In `make test`, the
/// number is smaller for three threads, because models of three threads take longest.
fn depth(threads: usize) -> usize {
    if threads > 2 && std::env::var_os("UZRAM_LONG").is_none() { 2 } else { 3 }
}

fn model(scene: impl Fn() -> Arc<Scene> + Sync + Send + 'static, actors: &'static [fn(&Scene)]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(depth(actors.len()));
    builder.check(move || {
        let scene = scene();
        let others: Vec<_> = actors[1..]
            .iter()
            .map(|act| {
                let scene = scene.clone();
                thread::spawn(move || act(&scene))
            })
            .collect();
        actors[0](&scene);
        others.into_iter().for_each(|other| other.join().unwrap());
        scene.check();
    });
}

#[test]
fn loom_touches_against_eviction() {
    model(|| Scene::new(State::Resident, Page::Open), &[Scene::evict, Scene::touch, Scene::touch]);
}

#[test]
fn loom_touches_of_what_is_evicted() {
    model(|| Scene::new(State::Evicted, Page::Absent), &[Scene::touch, Scene::touch, Scene::touch]);
}

#[test]
fn loom_zeros_against_eviction_and_touch() {
    model(
        || Scene::new(State::Probation, Page::Closed),
        &[Scene::evict, Scene::zero, Scene::touch],
    );
}

#[test]
fn loom_what_is_shared_against_eviction_zeros_and_touch() {
    model(|| Scene::new(State::Shared, Page::Closed), &[Scene::evict, Scene::zero, Scene::touch]);
}

/// A pinned block is not evicted. Either the eviction ends before the pin is added, or the pin
/// prevents the eviction.
#[test]
fn loom_pin_against_eviction() {
    fn pin(scene: &Scene) {
        loop {
            let seen = scene.word.load();
            match seen.state() {
                State::Resident if scene.word.try_pin(seen) => break,
                State::Resident => {}
                _ => scene.touch(),
            }
        }
        // SAFETY: loom provides the pointer, and checks that no owner changes the page during the
        // access.
        assert_eq!(scene.page.with(|page| unsafe { *page }), Page::Open);
        scene.word.unpin();
    }
    model(|| Scene::new(State::Resident, Page::Open), &[Scene::evict, pin]);
}

/// If a thread owns a block whose chunk is not open, the block becomes free only after the thread
/// has released the block.
#[test]
fn loom_blocks_that_become_free_are_nobodys() {
    loom::model(|| {
        let word = Arc::new(BlockWord::new(State::Untouched));
        let owner = {
            let word = word.clone();
            thread::spawn(move || {
                let seen = word.load();
                if seen.state() == State::Untouched && word.try_own(seen) {
                    word.publish(State::Untouched, |word| word);
                }
            })
        };
        word.begin_free();
        assert_eq!(word.load().state(), State::Free);
        owner.join().unwrap();
        assert_eq!(word.load().state(), State::Free);
    });
}
