//! Arenas: random operations, the compressor thread, batches, and refused calls.
//!
//! # Safety
//! The only handler of SIGSEGV passes each fault to `answer_fault`. If the fault is not on an
//! arena, the handler ends the process. Each test has an arena of its own. The use of each block is
//! changed by only one thread.
#![allow(unsafe_code, clippy::unwrap_used)]

mod aside;
mod model;

use fastrand::Rng;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use testkit::arena::install;
use testkit::child::Child;
use zmem::{Arena, BackendKind, BlockOrder, Options, Use};

const MIB: usize = 1 << 20;

const KINDS: [BackendKind; 3] =
    [BackendKind::Signal, BackendKind::SignalMappings, BackendKind::SignalRemap];

fn options(kind: BackendKind, order: u32) -> Options {
    Options { backend: kind, block: BlockOrder::Fixed(order), ..Options::default() }
}

/// Returns whether a system call can read the byte at an address.
fn is_readable(address: usize) -> bool {
    // SAFETY: the call only reads a path, and writes nothing.
    let done = unsafe { libc::syscall(libc::SYS_access, address as *const u8, libc::F_OK) };
    done == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

/// Some threads access managed blocks and evict, while other threads change the use of neighbouring
/// blocks.
#[test]
fn neighbours_of_what_changes_keep_their_data() {
    install();
    let options = Options { limit: Some(6 << 20), ..options(BackendKind::Signal, 0) };
    let arena = Arena::new(0, 16 * MIB, &options).unwrap();
    let start = arena.addresses().start;
    let done = AtomicBool::new(false);
    let (arena, done) = (&arena, &done);
    std::thread::scope(|scope| {
        let changers: Vec<_> = (0..2)
            .map(|changer| {
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(testkit::seed(changer));
                    for nth in 0..4000usize {
                        // Only this thread uses these pages, every eighth page from page 1 or 5 on.
                        let page = rng.usize(..512) * 8 + 1 + 4 * changer as usize;
                        let range = start + page * 4096..start + (page + 1) * 4096;
                        let to = [Use::Managed, Use::Plain, Use::Free][nth % 3];
                        // SAFETY: only this thread uses these blocks.
                        unsafe {
                            arena.set_use(range.clone(), Use::Managed).unwrap();
                            let at = range.start as *mut u8;
                            at.write_volatile(nth as u8);
                            arena.set_use(range.clone(), to).unwrap();
                            assert!(to == Use::Free || at.read_volatile() == nth as u8);
                        }
                    }
                })
            })
            .collect();
        for user in 0..2usize {
            scope.spawn(move || {
                let pages = (0..4096).filter(move |page| page % 8 == 2 + 4 * user);
                for page in pages.clone() {
                    let at = start + page * 4096;
                    // SAFETY: only this thread uses these blocks.
                    unsafe {
                        arena.set_use(at..at + 4096, Use::Managed).unwrap();
                        (at as *mut u8).write_volatile(page as u8);
                    }
                }
                while !done.load(Relaxed) {
                    for page in pages.clone() {
                        // SAFETY: only this thread uses these blocks.
                        let value = unsafe { ((start + page * 4096) as *mut u8).read_volatile() };
                        assert_eq!(value, page as u8);
                    }
                    arena.reclaim(MIB);
                }
            });
        }
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        done.store(true, Relaxed);
    });
    arena.check();
}

/// First touches of new memory open whole batches, whatever their order is, because allocators soon
/// use all of the memory.
#[test]
fn what_is_new_opens_in_batches_while_the_limit_is_far() {
    install();
    let (limit, batch) = (Some(64 * MIB as u64), 64);
    let arena = Arena::new(0, 64 * MIB, &Options { limit, ..Options::default() }).unwrap();
    let start = arena.addresses().start;
    // SAFETY: no code uses the arena yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    let touch = |pages: Range<usize>| {
        let before = arena.stats().faults.count();
        // Consecutive accesses are far apart.
        for page in pages.clone().step_by(2).chain(pages.skip(1).step_by(2)).step_by(3) {
            // SAFETY: the page is readable and writable, and only this thread uses it.
            unsafe { ((start + page * 4096) as *mut u8).write_volatile(1) };
        }
        arena.stats().faults.count() - before
    };
    // A batch begins at the accessed block, so batches overlap, and more than 16 faults occur.
    assert!(touch(0..16 * batch) <= 24);
    // If more than a quarter of the limit is held, blocks are opened one by one.
    touch(16 * batch..128 * batch);
    let pages = 160 * batch..176 * batch;
    let blocks = pages.len().div_ceil(3) as u64;
    assert_eq!(touch(pages), blocks);
    arena.check();
}

/// Some programs fill and read a table from the table's end to its start.
#[test]
fn touches_downwards_bring_batches_too() {
    install();
    let (limit, batch, pages) = (Some(64 * MIB as u64), 64, 32 * 64);
    let arena = Arena::new(0, 64 * MIB, &Options { limit, ..Options::default() }).unwrap();
    let start = arena.addresses().start;
    // SAFETY: no code uses the arena yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    let go_down = || {
        let before = arena.stats().faults.count();
        for page in (0..pages).rev() {
            let at = (start + page * 4096) as *mut u8;
            // SAFETY: the byte is readable and writable, and only this thread uses it.
            unsafe { at.write_volatile(at.read_volatile().wrapping_add(page as u8 | 1)) };
        }
        arena.stats().faults.count() - before
    };
    assert!(go_down() <= (pages / batch) as u64 + 1);
    arena.reclaim(usize::MAX);
    assert_eq!(arena.stats().resident, 0);
    // The number of blocks that a fault fills doubles up to a batch, and begins at one block again
    // in each chunk.
    assert!(go_down() <= (pages / batch + pages / 512 * 7) as u64);
    assert_eq!(arena.stats().filled as usize, pages);
    for page in 0..pages {
        // SAFETY: the byte is readable and writable, and only this thread uses it.
        let found = unsafe { ((start + page * 4096) as *const u8).read_volatile() };
        assert_eq!(found, (page as u8 | 1).wrapping_mul(2));
    }
    arena.check();
}

/// Without a floor, each fault would evict all resident blocks, and later faults would fill these
/// blocks again.
#[test]
fn a_limit_that_compressed_data_pass_leaves_a_part_resident() {
    install();
    let (limit, pages) = (Some(8 * MIB as u64), 16 * MIB / 4096);
    let arena = Arena::new(0, 16 * MIB, &Options { limit, ..Options::default() }).unwrap();
    let start = arena.addresses().start;
    // SAFETY: no code uses the arena yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    let seed = testkit::seed(83);
    // Two thirds of each page are random bytes.
    let noise = |page: usize| Rng::with_seed(seed ^ page as u64);
    for page in 0..pages {
        // SAFETY: the bytes are readable and writable, and only this thread uses them.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((start + page * 4096) as *mut u8, 4096 * 2 / 3)
        };
        noise(page).fill(bytes);
    }
    assert!(arena.stats().pool > 8 * MIB as u64, "{:?}", arena.stats());
    let read = |pages: Range<usize>| {
        let before = arena.stats().filled;
        for page in pages {
            // SAFETY: the bytes are readable, and only this thread uses them.
            let bytes = unsafe {
                std::slice::from_raw_parts((start + page * 4096) as *const u8, 4096 * 2 / 3)
            };
            let mut expected = vec![0; bytes.len()];
            noise(page).fill(&mut expected);
            assert_eq!(bytes, expected, "page {page}");
        }
        arena.stats().filled - before
    };
    // The floor is large enough for these pages.
    read(0..256);
    assert_eq!([read(0..256), read(0..256)], [0, 0]);
    read(0..pages);
    // After enough compressed data were freed, the limit is kept again, even without an eviction.
    let freed = start + pages / 4 * 4096..arena.addresses().end;
    // SAFETY: no code uses these addresses any more.
    unsafe { arena.set_use(freed, Use::Free).unwrap() };
    read(0..256);
    assert!(Some(arena.stats().held) <= limit, "{:?}", arena.stats());
    arena.check();
}

#[test]
fn a_touch_of_what_is_free_is_the_programs() {
    install();
    let arena = Arena::new(0, 4 * MIB, &options(BackendKind::Signal, 0)).unwrap();
    let start = arena.addresses().start;
    for (at, managed) in [(start, false), (start + 4096, false), (start + 4096, true)] {
        if managed {
            // SAFETY: no code uses the page yet.
            unsafe { arena.set_use(at..at + 4096, Use::Managed).unwrap() };
        }
        // SAFETY: if the byte can be written to, no other code uses it.
        let child = Child::fork(|| unsafe { (at as *mut u8).write_volatile(1) });
        let status = child.status();
        assert_eq!(libc::WEXITSTATUS(status), if managed { 0 } else { 77 }, "{status:#x}");
    }
}

#[test]
fn wrong_arenas_and_ranges_are_refused() {
    let plain = options(BackendKind::Signal, 0);
    for (address, bytes) in [(0, 0), (0, 4096), (4096, 2 * MIB), (0, 3 * MIB)] {
        assert!(matches!(Arena::new(address, bytes, &plain), Err(zmem::Error::Size { .. })));
    }
    let kind = BackendKind::Userfaultfd;
    let refused = Arena::new(0, 2 * MIB, &options(kind, 0));
    assert!(matches!(refused, Err(zmem::Error::Backend)));
    let arena = Arena::new(0, 2 * MIB, &options(BackendKind::Signal, 2)).unwrap();
    let Range { start, end } = arena.addresses();
    let same_place = Arena::new(start, 2 * MIB, &plain);
    assert!(matches!(same_place, Err(zmem::Error::System { .. })), "{same_place:?}");
    for (from, to) in
        [(start - 16384, start), (start, end + 16384), (start + 4096, end), (end, start)]
    {
        assert!(matches!(arena.pin(from..to), Err(zmem::Error::Range { .. })), "{from:x} {to:x}");
    }
    arena.pin(start..end).unwrap();
    arena.unpin(start..end).unwrap();
}
