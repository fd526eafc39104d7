//! With `Fork::Copied`, a child has a copy of all blocks, even of blocks that were absent or
//! changing at the fork. Writes by the child do not affect its parent.

use crate::rights::give_up_rights;
use crate::{MIB, PAGE, end_of, for_each_backend, is_signal, turn};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use testkit::child::in_child;
use testkit::load::Stop;
use testkit::scaled;
use zmem::{Advice, BackendKind, Error, Fork, Options, Region};

/// Returns a region of which each child has a copy.
fn region(backend: BackendKind) -> Region {
    let (limit, fork) = (Some(6 * MIB as u64), Fork::Copied);
    let options = Options { limit, backend, fork, ..Options::default() };
    Region::new(16 * MIB, options).unwrap()
}

/// Writes the page's number and copies of `whose` to each page.
fn write(region: &mut [u8], whose: u8) {
    for (nth, page) in region.chunks_mut(PAGE).enumerate() {
        page[..4].copy_from_slice(&(nth as u32).to_le_bytes());
        page[100..200].fill(whose);
    }
}

fn verify(region: &[u8], whose: u8) {
    let first = u32::from_le_bytes(*region.first_chunk().unwrap());
    for (nth, page) in region.chunks(PAGE).enumerate() {
        assert_eq!(page[..4], (first + nth as u32).to_le_bytes());
        assert!(page[100..200].iter().all(|&byte| byte == whose), "page {nth} of {whose}");
    }
}

#[test]
fn children_and_theirs_have_copies() {
    for_each_backend(|backend| {
        let mut region = region(backend);
        write(&mut region, 1);
        for _ in 0..scaled(3, 100) {
            region.reclaim(2 * MIB);
            in_child(|| {
                verify(&region, 1);
                write(&mut region, 2);
                in_child(|| {
                    verify(&region, 2);
                    write(&mut region, 3);
                    verify(&region, 3);
                    region.check();
                });
                region.reclaim(16 * MIB);
                verify(&region, 2);
                region.check();
            });
            verify(&region, 1);
        }
        region.check();
    });
}

#[test]
fn a_child_counts_what_it_does_itself() {
    for_each_backend(|backend| {
        let mut region = region(backend);
        write(&mut region, 1);
        verify(&region, 1);
        assert!(region.stats().evicted > 2000 && region.stats().filled > 1000);
        in_child(|| {
            let stats = region.stats();
            let counts = [stats.first_touches, stats.kept, stats.filled, stats.ahead];
            let more = [stats.in_place, stats.refaults, stats.waits, stats.marked];
            let last = [stats.evicted, stats.zeros, stats.stolen, stats.refused];
            assert_eq!([counts, more, last], [[0; 4]; 3], "{stats:?}");
            assert_eq!((stats.faults.count(), stats.incompressible), (0, 0), "{stats:?}");
            assert!(stats.held_max >= stats.held && stats.held_max < 20 << 20, "{stats:?}");
            region.reclaim(16 * MIB);
            assert_eq!(region.stats().resident, 0);
            verify(&region[..MIB], 1);
            let stats = region.stats();
            let filled = (stats.filled + stats.kept) as usize;
            assert!((MIB / PAGE..2 * MIB / PAGE).contains(&filled), "{stats:?}");
            region.check();
        });
        verify(&region, 1);
    });
}

#[test]
fn a_child_made_under_load_has_a_whole_copy() {
    for_each_backend(fork_under_load);
}

fn fork_under_load(backend: BackendKind) {
    let region = region(backend);
    // SAFETY: the region begins at a page boundary, and is used only through these words.
    let words: &[AtomicU64] =
        unsafe { std::slice::from_raw_parts(region.as_ptr().cast(), 16 * MIB / 8) };
    let stop = AtomicBool::new(false);
    let page = |nth: usize| &words[nth * PAGE / 8..(nth + 1) * PAGE / 8];
    let pages = 16 * MIB / PAGE;
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for own in 0..4 {
            let stop = &stop;
            scope.spawn(move || {
                for round in 1.. {
                    for nth in (own..pages).step_by(4) {
                        // The first word of a page exceeds the page's second word by at most 1.
                        page(nth)[0].store(round, Relaxed);
                        page(nth)[1].store(round, Relaxed);
                        if stop.load(Relaxed) {
                            return;
                        }
                    }
                }
            });
        }
        for _ in 0..scaled(6, 500) {
            in_child(|| {
                for nth in 0..pages {
                    let [first, second] = [0, 1].map(|at| page(nth)[at].load(Relaxed));
                    assert!(first == second || first == second + 1, "{first} {second}");
                    page(nth)[1].store(first + 7, Relaxed);
                }
                for nth in 0..pages {
                    let [first, second] = [0, 1].map(|at| page(nth)[at].load(Relaxed));
                    assert_eq!(first + 7, second);
                }
                region.check();
            });
        }
    });
}

/// A fork during a long call waits for at most one step of the call. So faults that wait for the
/// fork are not delayed until the call ends.
#[test]
fn a_fork_waits_for_no_whole_call() {
    let mut region = Region::new(64 * MIB, Options::default()).unwrap();
    write(&mut region, 1);
    testkit::wait::until("a fork comes amid a call", || {
        assert_eq!(region.reclaim(64 * MIB), 64 * MIB);
        let is_amid = || (MIB..63 * MIB).contains(&(region.stats().resident as usize));
        thread::scope(|scope| {
            scope.spawn(|| region.prefetch(0..64 * MIB).unwrap());
            testkit::wait::until("the call has begun", || region.stats().resident > 0);
            in_child(|| ());
            is_amid()
        })
    });
    region.check();
}

/// Returns the size of this process's address space in bytes.
fn address_space() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn a_child_can_drop_a_region() {
    let mut region = Some(region(BackendKind::Best));
    write(region.as_mut().unwrap(), 1);
    in_child(|| {
        let before = address_space();
        drop(region.take());
        let after = address_space();
        assert!(after + 16 * MIB <= before, "{before} bytes, and {after} without the region");
    });
}

/// A daemon closes all descriptors when it starts. After that, the region opens new descriptors, in
/// the process and in its child.
#[test]
fn closed_descriptors_are_opened_again() {
    let _turn = turn();
    in_child(|| {
        let mut region = region(BackendKind::Best);
        write(&mut region, 1);
        region.reclaim(16 * MIB);
        // SAFETY: no code in this process needs these descriptors any more.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        let files: Vec<_> =
            (0..8).map(|_| std::fs::File::open("/proc/self/status").unwrap()).collect();
        verify(&region, 1);
        in_child(|| {
            write(&mut region, 2);
            region.reclaim(16 * MIB);
            verify(&region, 2);
        });
        verify(&region, 1);
        drop(files);
        region.check();
    });
}

/// A child without a copy of the region never reads zeros or other memory at the region's
/// addresses.
#[test]
fn a_region_may_be_left_to_the_parent() {
    for_each_backend(|backend| {
        if is_signal(backend) {
            return;
        }
        let options = Options { backend, ..Options::default() };
        let mut region = Region::new(MIB, options).unwrap();
        write(&mut region, 1);
        region.reclaim(MIB / 2);
        in_child(|| {
            assert_eq!(region.prefetch(0..PAGE), Err(Error::Forked));
            assert_eq!(region.advise(0..PAGE, Advice::Cold), Err(Error::Forked));
            assert_eq!(region.lock(0..PAGE).map(drop), Err(Error::Forked));
            assert_eq!((region.reclaim(MIB), region.dont_need(0..100)), (0, Err(Error::Forked)));
            assert_eq!(region.stats().backend, "none");
            assert_eq!(region.set_limit(Some(6 * MIB as u64)), Err(Error::Forked));
            region.check();
            for at in [0, MIB - 1] {
                let ends = end_of(|| assert_eq!(region[at], 0));
                assert_eq!(ends, libc::SIGSEGV);
            }
            // SAFETY: the child ends without dropping the region again.
            drop(unsafe { std::ptr::read(&region) });
            let mut own = Region::new(MIB, Options { backend, ..Options::default() }).unwrap();
            write(&mut own, 2);
            own.reclaim(MIB);
            verify(&own, 2);
        });
        verify(&region, 1);
        region.check();
    });
}

/// With a userfaultfd, all blocks are filled before a fork, whatever the limit is. The child then
/// evicts until it keeps its parent's limit.
#[test]
fn a_child_comes_down_to_its_limit() {
    for_each_backend(|backend| {
        let mut region = region(backend);
        let limit = region.stats().limit.unwrap();
        write(&mut region[..12 * MIB], 1);
        in_child(|| {
            region.prefetch(0..1).unwrap();
            let is_kept = || region.stats().held <= limit;
            testkit::wait::until("a call has the child's thread begin", is_kept);
            verify(&region[..12 * MIB], 1);
            region.check();
        });
        in_child(|| {
            region[12 * MIB..].chunks_mut(PAGE).for_each(|page| page[0] = 1);
            assert!(region.stats().held <= limit, "{:?}", region.stats());
            verify(&region[..12 * MIB], 1);
            region.check();
        });
    });
}

/// If a child is not allowed to open a userfaultfd, the child's copy of the region is not managed.
#[test]
fn a_child_without_rights_has_memory_as_any_other() {
    for_each_backend(|backend| {
        if is_signal(backend) {
            return;
        }
        in_child(|| {
            let mut region = region(backend);
            write(&mut region[..12 * MIB], 1);
            give_up_rights();
            in_child(|| {
                assert_eq!(region.stats().backend, "none");
                verify(&region[..12 * MIB], 1);
                assert!(region[12 * MIB..].iter().all(|&byte| byte == 0));
                write(&mut region[..], 2);
                assert_eq!(region.reclaim(16 * MIB), 0);
                drop(region.lock(0..MIB).unwrap());
                in_child(|| verify(&region, 2));
                region.dont_need(MIB - 100..2 * MIB).unwrap();
                assert!(region[MIB - 100..2 * MIB].iter().all(|&byte| byte == 0));
                verify(&region[2 * MIB..], 2);
                region.check();
            });
            verify(&region[..12 * MIB], 1);
        });
    });
}
