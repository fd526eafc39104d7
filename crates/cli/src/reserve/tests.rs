//! Tests the reserve against a model, with an inner allocator that refuses some or all allocations.

use super::*;
use std::alloc::System;
use std::sync::atomic::AtomicBool;

/// The system's allocator, which refuses allocations while `refuses` is set.
#[derive(Debug)]
struct Refusing {
    refuses: AtomicBool,
}

// SAFETY: each function returns memory of the system's allocator, or null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        if self.refuses.load(Relaxed) { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

fn refusing() -> Reserved<Refusing> {
    Reserved::new(Refusing { refuses: AtomicBool::new(true) })
}

/// A live allocation, which is filled with one byte value.
struct Live {
    at: *mut u8,
    layout: Layout,
    fill: u8,
}

impl Live {
    fn new(at: *mut u8, layout: Layout, fill: u8) -> Self {
        assert!(at.addr().is_multiple_of(layout.align()));
        // SAFETY: the memory was just allocated for this layout.
        unsafe { at.write_bytes(fill, layout.size()) };
        Live { at, layout, fill }
    }

    fn holds(&self, bytes: usize) -> bool {
        // SAFETY: the allocation is live, and all of it was written.
        let held = unsafe { std::slice::from_raw_parts(self.at, bytes) };
        held.iter().all(|&byte| byte == self.fill)
    }
}

/// Allocates, resizes and frees memory at random.
fn play(memory: &Reserved<Refusing>, random: &mut fastrand::Rng, steps: usize) {
    let mut live: Vec<Live> = Vec::new();
    for _ in 0..steps {
        if random.u8(..) < 8 {
            memory.system.refuses.store(random.u8(..) < 200, Relaxed);
        }
        let most = 1 << random.u32(1..15);
        let size = 1 + random.usize(..most);
        let layout = Layout::from_size_align(size, 1 << random.u32(..13)).unwrap();
        let nth = random.usize(..live.len().max(1));
        match random.u8(..8) {
            0..3 => {
                // SAFETY: the size of the layout is not zero.
                let at = unsafe { memory.alloc(layout) };
                if !at.is_null() {
                    live.push(Live::new(at, layout, random.u8(..)));
                }
            }
            3 => {
                // SAFETY: as above.
                let at = unsafe { memory.alloc_zeroed(layout) };
                if !at.is_null() {
                    let new = Live { at, layout, fill: 0 };
                    assert!(new.holds(size), "not zeros");
                    live.push(Live::new(at, layout, random.u8(..)));
                }
            }
            4..6 if !live.is_empty() => {
                let old = &mut live[nth];
                // SAFETY: the old allocation is live, and has this layout.
                let at = unsafe { memory.realloc(old.at, old.layout, size) };
                if !at.is_null() {
                    let layout = Layout::from_size_align(size, old.layout.align()).unwrap();
                    let kept = old.layout.size().min(size);
                    (old.at, old.layout) = (at, layout);
                    assert!(old.holds(kept), "bytes were lost");
                    *old = Live::new(at, layout, random.u8(..));
                }
            }
            _ if !live.is_empty() => {
                let old = live.swap_remove(nth);
                assert!(old.holds(old.layout.size()), "another's bytes");
                // SAFETY: the allocation is live, has this layout, and is not used again.
                unsafe { memory.dealloc(old.at, old.layout) };
            }
            _ => {}
        }
    }
    for old in live {
        assert!(old.holds(old.layout.size()), "another's bytes");
        // SAFETY: as above.
        unsafe { memory.dealloc(old.at, old.layout) };
    }
}

#[test]
fn it_is_as_a_model() {
    let mut random = fastrand::Rng::with_seed(testkit::random_seed());
    for bytes in [1, 4096, 100_000, 1 << 20] {
        let memory = refusing();
        memory.keep(bytes).unwrap();
        for _ in 0..20 {
            play(&memory, &mut random, 500);
            memory.reserve.check();
            assert_eq!(memory.reserve.taken.load(Relaxed), 0, "something was left behind");
        }
    }
}

#[test]
fn many_threads_share_it() {
    let seed = testkit::random_seed();
    let memory = refusing();
    memory.keep(1 << 20).unwrap();
    std::thread::scope(|scope| {
        for nth in 0..4 {
            let memory = &memory;
            scope.spawn(move || play(memory, &mut fastrand::Rng::with_seed(seed ^ nth), 5_000));
        }
    });
    memory.reserve.check();
    assert_eq!(memory.reserve.taken.load(Relaxed), 0);
}

#[test]
fn all_of_it_is_given_out_once_and_no_more() {
    let memory = refusing();
    let layout = Layout::from_size_align(UNIT, UNIT).unwrap();
    // SAFETY: the size of the layout is not zero.
    let take = || unsafe { memory.alloc(layout) };
    assert!(take().is_null() && !memory.is_short(), "there is no reserve yet");
    memory.keep(64 * UNIT).unwrap();
    memory.keep(1 << 20).unwrap();
    let mut given: Vec<_> = std::iter::repeat_with(take).take(64 / SHARE).collect();
    assert!(!memory.is_short());
    given.extend(std::iter::repeat_with(take).take_while(|at| !at.is_null()));
    assert!(given.len() == 64 && memory.is_short());
    let order = given.clone();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given, order, "lowest first, and none twice");
    // SAFETY: the allocations are live, and have this layout.
    given.iter().step_by(2).for_each(|&at| unsafe { memory.dealloc(at, layout) });
    let two = Layout::from_size_align(2 * UNIT, 1).unwrap();
    // SAFETY: the size of the layout is not zero.
    assert!(unsafe { memory.alloc(two) }.is_null(), "no two lie together");
    assert_eq!(take(), given[0]);
    memory.reserve.check();
}

#[test]
fn what_is_large_is_refused() {
    let memory = refusing();
    memory.keep(4 << 20).unwrap();
    for (size, align) in [(LARGEST + 1, 1), (1, 2 * ALIGN_MAX)] {
        let layout = Layout::from_size_align(size, align).unwrap();
        // SAFETY: the size of the layout is not zero.
        assert!(unsafe { memory.alloc(layout) }.is_null());
    }
    let largest = Layout::from_size_align(LARGEST, ALIGN_MAX).unwrap();
    // SAFETY: as above.
    assert!(!unsafe { memory.alloc(largest) }.is_null());
}
