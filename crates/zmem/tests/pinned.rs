//! Memory that the program locks with `mlock` or `mlockall`. Locked pages can't be evicted, but no
//! operation fails.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "backends/kinds.rs"]
#[allow(dead_code)]
mod kinds;

use kinds::for_each_backend;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use testkit::child::in_child;
use zmem::{BackendKind, BlockOrder, Error, Options, Region};

const MIB: usize = 1 << 20;
const BACKENDS: [BackendKind; 3] =
    [BackendKind::Signal, BackendKind::SignalMappings, BackendKind::SignalRemap];

fn region(backend: BackendKind) -> Region {
    let limit = Some(8 * MIB as u64);
    Region::new(16 * MIB, Options { limit, backend, ..Options::default() }).unwrap()
}

fn write(bytes: &mut [u8], tag: u8) {
    for (nth, page) in bytes.chunks_mut(4096).enumerate() {
        page[..4].copy_from_slice(&(nth as u32).to_le_bytes());
        page[100..200].fill(tag);
    }
}

fn verify(bytes: &[u8], tag: u8) {
    for (nth, page) in bytes.chunks(4096).enumerate() {
        assert_eq!(page[..4], (nth as u32).to_le_bytes());
        assert!(page[100..200].iter().all(|&byte| byte == tag), "page {nth}");
    }
}

/// Locks all memory of the process. Returns whether the system permits locking.
fn lock_all(flags: i32) -> bool {
    // SAFETY: the call changes no data.
    unsafe { libc::mlockall(flags) == 0 }
}

fn mlock(start: *const u8, bytes: usize) {
    // SAFETY: the call changes no data.
    assert_eq!(unsafe { libc::mlock(start.cast(), bytes) }, 0);
}

fn use_it(region: &mut Region, tag: u8) {
    write(region, tag);
    region.reclaim(16 * MIB);
    verify(region, tag);
    region.check();
    region.dont_need(MIB..2 * MIB + 100).unwrap();
    assert!(region[MIB..2 * MIB + 100].iter().all(|&byte| byte == 0));
    region.check();
    write(&mut region[MIB..3 * MIB], tag);
    verify(&region[MIB..3 * MIB], tag);
    assert!(region[4 * MIB..].chunks(4096).all(|page| page[100..200] == [tag; 100]));
}

#[test]
fn what_is_locked_with_all_there_is_stays() {
    for backend in BACKENDS {
        in_child(|| {
            let mut region = region(backend);
            write(&mut region[..4 * MIB], 1);
            region.reclaim(MIB);
            if lock_all(libc::MCL_CURRENT) {
                verify(&region[..4 * MIB], 1);
                use_it(&mut region, 2);
                assert!(region.stats().refused > 0, "{backend:?}: {:?}", region.stats());
            }
        });
    }
}

#[test]
fn what_is_locked_in_part_loses_nothing() {
    for_each_backend(|backend| {
        for block in [BlockOrder::Fixed(0), BlockOrder::Fixed(4), BlockOrder::Adaptive(2)] {
            in_child(|| lose_nothing(backend, block));
        }
    });
}

fn lose_nothing(backend: BackendKind, block: BlockOrder) {
    let options = Options { block, backend, ..Options::default() };
    let mut region = Region::new(4 * MIB, options).unwrap();
    write(&mut region, 1);
    mlock(region[MIB + 5 * 4096..].as_ptr(), 3 * 4096);
    for tag in 1..4 {
        verify(&region, tag);
        let gone = region.reclaim(16 * MIB);
        assert!(gone >= 2 * MIB, "{gone}");
        // After `mremap` has moved a block, the block is no longer locked.
        let is_moved = backend == BackendKind::SignalRemap;
        assert!(is_moved || gone <= 4 * MIB - 3 * 4096, "{gone}");
        region.check();
        verify(&region, tag);
        write(&mut region, tag + 1);
    }
    region.dont_need(0..4 * MIB).unwrap();
    region.check();
    assert!(region.iter().all(|&byte| byte == 0));
}

/// An `madvise` call of the program can split the mapping of a region. Blocks in two mappings are
/// then evicted and filled together.
#[test]
fn what_the_program_sets_apart_comes_and_goes_with_the_rest() {
    for_each_backend(|backend| {
        for block in [BlockOrder::Fixed(0), BlockOrder::Fixed(3)] {
            let options = Options { block, backend, ..Options::default() };
            let mut region = Region::new(4 * MIB, options).unwrap();
            for at in (4096..4 * MIB).step_by(11 * 4096) {
                let start = region[at..].as_ptr().cast_mut().cast();
                // SAFETY: the call changes no data.
                assert_eq!(unsafe { libc::madvise(start, 3 * 4096, libc::MADV_DONTDUMP) }, 0);
            }
            write(&mut region, 1);
            let mut rng = fastrand::Rng::with_seed(testkit::seed(70));
            // Half of the blocks do not compress, so they stay resident.
            for block in region.chunks_mut(64 << 10).step_by(2) {
                block.fill_with(|| rng.u8(..));
            }
            let expected = region.to_vec();
            for _ in 0..3 {
                region.reclaim(4 * MIB);
                assert!(region[..] == expected);
            }
            let stats = region.stats();
            assert!(stats.filled > 0 && stats.incompressible > 0, "{stats:?}");
            region.check();
        }
    });
}

#[test]
fn a_region_does_where_all_that_comes_is_locked() {
    for backend in BACKENDS {
        in_child(|| {
            if lock_all(libc::MCL_FUTURE) {
                let mut region = region(backend);
                use_it(&mut region, 1);
                assert!(region.stats().evicted > 0, "{backend:?}: {:?}", region.stats());
            }
        });
    }
}

#[test]
fn memory_whose_pages_can_not_go_is_not_managed() {
    let map = |protection, flags| {
        // SAFETY: the kernel chooses the address.
        let start = unsafe { libc::mmap(null_mut::<c_void>(), MIB, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        NonNull::new(start.cast::<u8>()).unwrap()
    };
    let manage = |start| {
        // SAFETY: if the call succeeds, no other code uses the memory.
        unsafe { Region::manage(start, MIB, Options::default()).map(drop) }
    };
    let what = |result| match result {
        Err(Error::Memory { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let (private, shared) =
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    let both = libc::PROT_READ | libc::PROT_WRITE;
    manage(map(both, private)).unwrap();
    assert_eq!(what(manage(map(both, shared))), "shared");
    let only = what(manage(map(libc::PROT_READ, private)));
    assert_eq!(only, "not readable and writable, and no more");
    let locked = map(both, private);
    mlock(locked.as_ptr(), 4096);
    assert_eq!(what(manage(locked)), "locked, or of large pages");
}
