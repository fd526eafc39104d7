//! Random operations on the blocks of an arena, whose contents are compared with a copy.

use crate::{KINDS, MIB, is_readable, options};
use fastrand::Rng;
use std::ops::Range;
use testkit::arena::{defer_stores, install};
use testkit::child::in_child;
use zmem::{Advice, Arena, BackendKind, Options, Use};

/// An arena, the use of each of its blocks, and a copy of their contents.
pub(crate) struct Model {
    arena: Arena,
    rng: Rng,
    uses: Vec<Use>,
    /// The value of the checked bytes of each page. The model checks only these bytes.
    pages: Vec<u8>,
}

impl Model {
    fn new(arena: Arena, seed: u64) -> Self {
        let bytes: usize = arena.windows().map(|window| window.len()).sum();
        let uses = vec![Use::Free; bytes / arena.block()];
        Model { rng: Rng::with_seed(seed), uses, pages: vec![0; bytes / 4096], arena }
    }

    /// Returns the addresses of the window that contains a block, and the number of the window's
    /// first block. The model numbers the blocks of all windows consecutively.
    fn window(&self, block: usize) -> (Range<usize>, usize) {
        let mut first = 0;
        for window in self.arena.windows() {
            let blocks = window.len() / self.arena.block();
            if block < first + blocks {
                return (window, first);
            }
            first += blocks;
        }
        panic!("there is no block {block}");
    }

    /// Returns a random range of blocks in one window.
    fn range(&mut self) -> Range<usize> {
        let longest = if self.rng.u8(..) < 16 { self.uses.len() } else { 40 };
        let start = self.rng.usize(..self.uses.len());
        let (window, first) = self.window(start);
        let end = first + window.len() / self.arena.block();
        start..end.min(start + 1 + self.rng.usize(..longest))
    }

    fn addresses(&self, blocks: &Range<usize>) -> Range<usize> {
        let (window, first) = self.window(blocks.start);
        let address = |block: usize| window.start + (block - first) * self.arena.block();
        address(blocks.start)..address(blocks.end)
    }

    fn pages_of(&self, blocks: &Range<usize>) -> Range<usize> {
        let pages = self.arena.block() / 4096;
        blocks.start * pages..blocks.end * pages
    }

    /// Returns pointers to the checked bytes of a page.
    fn bytes(&self, page: usize) -> [*mut u8; 3] {
        let pages = self.arena.block() / 4096;
        let (window, first) = self.window(page / pages);
        let start = window.start + (page - first * pages) * 4096;
        [0, 1777, 4095].map(|at| (start + at) as *mut u8)
    }

    fn used(&self, blocks: Range<usize>) -> Vec<usize> {
        blocks.filter(|&block| self.uses[block] != Use::Free).collect()
    }

    fn set_use(&mut self, blocks: Range<usize>, to: Use) {
        // SAFETY: only the model uses the arena, and maps nothing else in plain blocks.
        unsafe { self.arena.set_use(self.addresses(&blocks), to).unwrap() };
        for block in blocks {
            if to == Use::Free {
                let pages = self.pages_of(&(block..block + 1));
                self.pages[pages].fill(0);
            }
            self.uses[block] = to;
        }
    }

    fn write(&mut self, block: usize) {
        for page in self.pages_of(&(block..block + 1)) {
            let value = self.rng.u8(..8);
            // SAFETY: blocks of this use (`Managed` or `Plain`) are readable and writable.
            self.bytes(page).iter().for_each(|&byte| unsafe { byte.write_volatile(value) });
            self.pages[page] = value;
        }
    }

    fn verify(&self, block: usize) {
        for page in self.pages_of(&(block..block + 1)) {
            for byte in self.bytes(page) {
                // SAFETY: blocks of this use (`Managed` or `Plain`) are readable and writable.
                let value = unsafe { byte.read_volatile() };
                assert_eq!(value, self.pages[page], "page {page} of {:?}", self.uses[block]);
            }
        }
    }

    fn step(&mut self) {
        let blocks = self.range();
        let bytes = self.addresses(&blocks);
        match self.rng.u8(..16) {
            0..3 => self.set_use(blocks, Use::Managed),
            3 => self.set_use(blocks, Use::Free),
            4 => self.set_use(blocks, Use::Plain),
            5..9 => self.used(blocks).into_iter().for_each(|block| self.write(block)),
            9..12 => self.used(blocks).into_iter().for_each(|block| self.verify(block)),
            12 => _ = self.arena.reclaim(bytes.len()),
            13 => {
                self.arena.advise(bytes, [Advice::Cold, Advice::Hot][self.rng.usize(..2)]).unwrap()
            }
            14 => {
                self.arena.pin(bytes.clone()).unwrap();
                self.arena.reclaim(MIB);
                for block in self.used(blocks) {
                    let at = self.addresses(&(block..block + 1)).start;
                    assert!(is_readable(at), "what is pinned is there");
                    self.verify(block);
                }
                self.arena.unpin(bytes).unwrap();
            }
            _ => {
                // SAFETY: only the model uses the blocks, and expects them to become zeros.
                unsafe { self.arena.dont_need(bytes).unwrap() };
                for block in blocks.filter(|&block| self.uses[block] == Use::Managed) {
                    let pages = self.pages_of(&(block..block + 1));
                    self.pages[pages].fill(0);
                }
            }
        }
    }

    fn verify_all(&self) {
        self.arena.check();
        for block in 0..self.uses.len() {
            match self.uses[block] {
                Use::Free => {
                    let at = self.addresses(&(block..block + 1)).start;
                    assert!(!is_readable(at), "block {block} is free");
                }
                _ => self.verify(block),
            }
        }
    }
}

#[test]
fn what_blocks_are_for_can_change_at_any_time() {
    install();
    for (nth, kind) in KINDS.into_iter().enumerate() {
        for (order, limit, is_aside) in [
            (0, None, false),
            (0, Some(3 * MIB), false),
            (0, Some(4 * MIB), true),
            (2, Some(4 * MIB), true),
            (4, Some(6 * MIB), false),
            (4, Some(9 * MIB), true),
        ] {
            let limit = limit.map(|limit| limit as u64);
            let options = Options { limit, ..options(kind, order) };
            let arena = Arena::new(0, 12 * MIB, &options).unwrap();
            if is_aside {
                defer_stores(&arena);
            }
            let mut model = Model::new(arena, testkit::seed(nth as u64 * 8 + u64::from(order)));
            for round in 0..6 {
                (0..150).for_each(|_| model.step());
                if round % 3 == 2 {
                    model.verify_all();
                }
            }
            let stats = model.arena.stats();
            assert!(stats.evicted > 0 && stats.filled > 0, "{stats:?}");
            assert_eq!(stats.aside > 0, is_aside, "{stats:?}");
        }
    }
}

/// Reserves a range of `bytes` addresses that begins at a multiple of `bytes`.
fn addresses(bytes: usize) -> Range<usize> {
    let (prot, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the address.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * bytes, prot, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    let start = start.addr().next_multiple_of(bytes);
    start..start + bytes
}

/// Returns an arena with three windows. The addresses of the third window end where the addresses
/// of the second window begin.
fn with_windows(options: &Options) -> Arena {
    let arena = Arena::with_room(0, 4 * MIB, 16 * MIB, options, None).unwrap();
    let Range { start, end } = addresses(8 * MIB);
    // The window that is added first ends within a chunk.
    let middle = start + 4 * MIB;
    for window in [middle..end - MIB, start..middle] {
        // SAFETY: no other code uses these addresses.
        unsafe { arena.add_window(window, false).unwrap() };
    }
    arena
}

#[test]
fn windows_are_as_the_rest_of_the_arena() {
    install();
    for (nth, kind) in KINDS.into_iter().enumerate() {
        for (order, limit) in [(0, 4 * MIB), (4, 9 * MIB)] {
            let options = Options { limit: Some(limit as u64), ..options(kind, order) };
            let mut model = Model::new(with_windows(&options), testkit::seed(80 + nth as u64));
            for _ in 0..3 {
                (0..200).for_each(|_| model.step());
                model.verify_all();
            }
            let stats = model.arena.stats();
            assert!(stats.evicted > 0 && stats.filled > 0, "{stats:?}");
        }
    }
}

/// While no other thread runs, a thread drops the pages of a whole clock window by one call. No
/// clock window has blocks of two windows of an arena, even if blocks are large because few
/// mappings are permitted.
#[test]
fn windows_of_large_blocks_are_evicted_apart() {
    install();
    for kind in [BackendKind::SignalMappings, BackendKind::SignalRemap] {
        in_child(|| {
            let options = Options { limit: Some(64 << 20), ..options(kind, 0) };
            let arena = Arena::with_room(0, 768 * MIB, 512 * MIB, &options, None).unwrap();
            assert!(arena.block() >= 64 << 10, "{} bytes of a block", arena.block());
            let windows: Vec<_> = (0..6).map(|_| addresses(2 * MIB)).collect();
            for window in &windows {
                // SAFETY: no other code uses these addresses.
                unsafe {
                    arena.add_window(window.clone(), false).unwrap();
                    arena.set_use(window.clone(), Use::Managed).unwrap();
                }
            }
            let words =
                |window: &Range<usize>| window.clone().step_by(4096).map(|at| at as *mut u64);
            for round in 0..40 {
                for at in windows.iter().flat_map(words) {
                    // SAFETY: managed memory is readable and writable, and no other code uses it.
                    unsafe { at.write_volatile(at.addr() as u64 * 31 + round) };
                }
                // One block of each window is pinned. The number of a window's other blocks is odd,
                // so a batch contains blocks of two windows.
                let (first, block) = (|window: &Range<usize>| window.start, arena.block());
                let second = |window| first(window) + block..first(window) + 2 * block;
                let pinned = windows.iter().map(second);
                pinned.clone().for_each(|block| arena.pin(block).unwrap());
                assert!(arena.reclaim(12 * MIB) > 4 * MIB);
                pinned.for_each(|block| arena.unpin(block).unwrap());
                for at in windows.iter().flat_map(words) {
                    // SAFETY: managed memory is readable, and no other code uses it.
                    assert_eq!(unsafe { at.read_volatile() }, at.addr() as u64 * 31 + round);
                }
            }
            arena.check();
        });
    }
}

#[test]
fn windows_are_refused_that_do_not_fit() {
    let arena = with_windows(&options(BackendKind::Signal, 0));
    let second = arena.windows().nth(1).unwrap();
    let (block, room) = (arena.block(), arena.window_room());
    // SAFETY: each call fails except the last one, whose addresses no other code uses.
    let add = |range| unsafe { arena.add_window(range, false) };
    let free = addresses(16 * MIB);
    let at = |bytes| free.start..free.start + bytes;
    assert!(matches!(add(second), Err(zmem::Error::Overlap { .. })));
    assert!(matches!(add(arena.addresses()), Err(zmem::Error::Overlap { .. })));
    assert!(matches!(add(free.start + 1..free.start + block), Err(zmem::Error::Size { .. })));
    assert!(matches!(add(at(0)), Err(zmem::Error::Size { .. })));
    assert!(matches!(add(at(room + block)), Err(zmem::Error::System { .. })));
    add(at(room)).unwrap();
    assert_eq!(arena.window_room(), 0);
    let across = arena.addresses().start..free.start + block;
    // SAFETY: the call fails without changing the blocks.
    let refused = unsafe { arena.set_use(across, Use::Managed) };
    assert!(matches!(refused, Err(zmem::Error::Range { .. })));
    arena.check();
}

#[test]
fn a_child_has_a_copy() {
    install();
    let options = Options { limit: Some(4 << 20), ..options(BackendKind::Signal, 0) };
    let mut model = Model::new(with_windows(&options), testkit::seed(40));
    (0..300).for_each(|_| model.step());
    for _ in 0..3 {
        in_child(|| {
            model.verify_all();
            (0..100).for_each(|_| model.step());
            model.verify_all();
        });
        model.verify_all();
        (0..100).for_each(|_| model.step());
    }
}

/// After `mlockall(MCL_FUTURE)`, blocks can be freed.
#[test]
fn what_is_locked_as_it_is_mapped_can_be_freed() {
    install();
    for kind in KINDS {
        in_child(|| {
            // SAFETY: the call changes no data.
            if unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0 {
                return println!("left out: nothing may be locked");
            }
            let arena = Arena::new(0, 4 * MIB, &options(kind, 0)).unwrap();
            let mut model = Model::new(arena, testkit::seed(61));
            for to in [Use::Plain, Use::Free, Use::Managed, Use::Free, Use::Plain, Use::Free] {
                for blocks in [3..40, 500..520] {
                    model.set_use(blocks.clone(), to);
                    model.used(blocks).into_iter().for_each(|block| model.write(block));
                }
                model.verify_all();
            }
        });
    }
}
