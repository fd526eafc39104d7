//! The compressor thread, which stores the blocks that other threads evict.

use crate::{MIB, options};
use fastrand::Rng;
use std::ops::Range;
use testkit::arena::{defer_stores, install};
use testkit::child::in_child;
use testkit::wait::until;
use zmem::{Advice, Arena, BackendKind, Options, Use};

/// Returns the bytes of the page `page`. The bytes of different pages differ.
fn page_of(page: usize, compresses: bool) -> [u8; 4096] {
    let (mut rng, mut bytes) = (Rng::with_seed(testkit::seed_of(page as u64)), [0; 4096]);
    match compresses {
        true => bytes.chunks_mut(64).for_each(|part| part.fill(rng.u8(..))),
        false => rng.fill(&mut bytes),
    }
    bytes
}

/// Writes the result of [`page_of`] to each of `pages`, which are counted from the address `at`.
fn fill(at: usize, pages: Range<usize>, compresses: bool) {
    for page in pages {
        let place = (at + page * 4096) as *mut [u8; 4096];
        // SAFETY: callers have just made the page readable and writable, and no other code uses it.
        unsafe { place.write(page_of(page, compresses)) };
    }
}

/// Asserts that `pages` contain the bytes that [`fill`] wrote.
fn assert_filled(at: usize, pages: Range<usize>, compresses: bool) {
    for page in pages {
        // SAFETY: callers have made the page readable and writable, and no other code uses it.
        let bytes = unsafe { ((at + page * 4096) as *const [u8; 4096]).read() };
        assert!(bytes == page_of(page, compresses), "page {page}");
    }
}

/// Queued blocks keep their contents if the evicting thread accesses them or forks. Queued blocks
/// can be freed.
#[test]
fn what_waits_to_be_stored_can_be_touched_freed_and_inherited() {
    for order in [0, 2] {
        in_child(move || {
            install();
            let limit = Some(16 * MIB as u64);
            let options = Options { limit, ..options(BackendKind::Signal, order) };
            let arena = Arena::new(0, 64 * MIB, &options).unwrap();
            defer_stores(&arena);
            let at = arena.addresses().start;
            // SAFETY: only this thread uses the arena, and freed blocks are not read.
            let set_use = |pages: Range<usize>, to| unsafe {
                arena.set_use(at + pages.start * 4096..at + pages.end * 4096, to).unwrap();
            };
            set_use(0..10_000, Use::Managed);
            for round in 0..testkit::scaled(40, 400) {
                let pages = round % 5 * 2000..(round % 5 + 1) * 2000;
                fill(at, pages.clone(), true);
                arena.reclaim(256 << 10);
                let last = at + (pages.end - 64) * 4096..at + pages.end * 4096;
                arena.advise(last, Advice::Cold).unwrap();
                assert_filled(at, pages.end - 64..pages.end, true);
                match round % 4 {
                    0 => assert_filled(at, pages, true),
                    1 => {
                        set_use(pages.clone(), Use::Free);
                        set_use(pages, Use::Managed);
                    }
                    2 => {
                        // SAFETY: the child uses only the arena, and then ends.
                        match unsafe { libc::fork() } {
                            0 => {
                                assert_filled(at, pages, true);
                                // SAFETY: the call ends the process.
                                unsafe { libc::_exit(9) };
                            }
                            child => {
                                let mut status = 0;
                                // SAFETY: the kernel writes only to the local status.
                                let waited = unsafe { libc::waitpid(child, &mut status, 0) };
                                assert_eq!((waited, status >> 8), (child, 9), "round {round}");
                            }
                        }
                    }
                    _ => arena.rest(),
                }
            }
            // The compressor thread can store a block before this thread accesses it, so the
            // accesses are repeated.
            until("a block is taken back before it is stored", || {
                arena.advise(at..at + 64 * 4096, Advice::Cold).unwrap();
                assert_filled(at, 0..64, true);
                arena.stats().stolen > 0
            });
            arena.check();
            let stats = arena.stats();
            assert!(stats.aside > 1000, "{stats:?}");
            assert!(stats.held_max <= 16 * MIB as u64 + 8 * 65536, "{stats:?}");
        });
    }
}

/// Incompressible blocks that were queued become resident again, and are not evicted for some
/// rounds.
#[test]
fn what_does_not_compress_is_put_back_by_the_thread_that_stores() {
    in_child(|| {
        install();
        let limit = Some(16 * MIB as u64);
        let arena =
            Arena::new(0, 32 * MIB, &Options { limit, ..options(BackendKind::Signal, 0) }).unwrap();
        defer_stores(&arena);
        let at = arena.addresses().start;
        // SAFETY: no other code uses these addresses.
        unsafe { arena.set_use(at..at + 12 * MIB, Use::Managed).unwrap() };
        fill(at, 0..3000, false);
        (0..5).for_each(|_| _ = arena.reclaim(MIB));
        assert_filled(at, 0..3000, false);
        arena.check();
        let stats = arena.stats();
        assert!(stats.incompressible > 100 && stats.filled == 0, "{stats:?}");
    });
}

/// The pager does not notice that resident blocks have become compressible, so later faults try
/// again to evict them.
#[test]
fn what_gets_smaller_later_goes_with_the_next_faults() {
    in_child(|| {
        install();
        let limit = 8 * MIB as u64;
        let options = Options { limit: Some(limit), ..options(BackendKind::Signal, 0) };
        let arena = Arena::new(0, 64 * MIB, &options).unwrap();
        let at = arena.addresses().start;
        // SAFETY: no other code uses these addresses.
        unsafe { arena.set_use(at..at + 64 * MIB, Use::Managed).unwrap() };
        fill(at, 0..6000, false);
        let tried = arena.stats().incompressible;
        fill(at, 8000..8010, true);
        let tried = arena.stats().incompressible - tried;
        assert!(arena.stats().held > 2 * limit && tried < 1000, "{tried}: {:?}", arena.stats());
        fill(at, 0..6000, true);
        let page = at + 8000 * 4096..at + 8001 * 4096;
        until("no more is held than the limit allows", || {
            // SAFETY: no other code uses the page, whose contents are no longer needed.
            unsafe { arena.dont_need(page.clone()).unwrap() };
            fill(at, 8000..8001, true);
            arena.stats().held <= limit
        });
        assert_filled(at, 0..6000, true);
        arena.check();
    });
}
