//! Children have their copy, whatever was absent or on its way; and what they write is theirs.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use testkit::child::in_child;
use testkit::load::Stop;
use testkit::scaled;
use zmem::{BackendKind, Options, Region};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

fn region(backend: BackendKind) -> Region {
    let options = Options { limit: Some(6 * MIB as u64), backend, ..Options::default() };
    Region::new(16 * MIB, options).unwrap()
}

/// Each page says its number and whose it is.
fn write(region: &mut Region, whose: u8) {
    for (nth, page) in region.chunks_mut(PAGE).enumerate() {
        page[..4].copy_from_slice(&(nth as u32).to_le_bytes());
        page[100..200].fill(whose);
    }
}

fn verify(region: &Region, whose: u8) {
    for (nth, page) in region.chunks(PAGE).enumerate() {
        assert_eq!(page[..4], (nth as u32).to_le_bytes());
        assert!(page[100..200].iter().all(|&byte| byte == whose), "page {nth} of {whose}");
    }
}

#[test]
fn children_and_theirs_have_copies() {
    for backend in [BackendKind::Signal, BackendKind::SignalMappings] {
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
    }
}

#[test]
fn a_child_made_under_load_has_a_whole_copy() {
    let region = region(BackendKind::Best);
    // SAFETY: on a page, and nobody uses the region but by these words.
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
                        // The first word is ahead of the second, by one at most.
                        page(nth)[0].store(round, Relaxed);
                        page(nth)[1].store(round, Relaxed);
                        if stop.load(Relaxed) {
                            return;
                        }
                    }
                }
            });
        }
        for _ in 0..scaled(30, 1000) {
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

/// Descriptors are closed by daemons; a child's is not its parent's.
#[test]
fn closed_descriptors_are_opened_again() {
    in_child(|| {
        let mut region = region(BackendKind::Best);
        write(&mut region, 1);
        region.reclaim(16 * MIB);
        // SAFETY: nobody here needs one of them any more.
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
