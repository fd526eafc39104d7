//! Regions of existing memory. The memory has missing pages, is accessed by other threads, or is
//! shared with a child.

use crate::{MIB, PAGE, for_each_backend};
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use testkit::child::{Child, in_child};
use testkit::load::Stop;
use testkit::scaled;
use zmem::{BackendKind, Error, Fork, Options, Region};

/// Memory that is mapped for a test until this value is dropped. Untouched pages are missing.
struct Mapped(NonNull<u8>);

impl Mapped {
    const BYTES: usize = 8 * MIB;

    fn new() -> Mapped {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the address.
        let start = unsafe { libc::mmap(null_mut(), Self::BYTES, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Mapped(NonNull::new(start.cast()).unwrap())
    }

    fn manage(&self, backend: BackendKind) -> Region {
        let options = Options { limit: Some(5 * MIB as u64), backend, ..Options::default() };
        // SAFETY: the memory is mapped until `self` is dropped, which tests do last.
        unsafe { Region::manage(self.0, Self::BYTES, options).unwrap() }
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `new` mapped `BYTES` bytes as readable and writable.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), Self::BYTES) }
    }
}

impl DerefMut for Mapped {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `new` mapped `BYTES` bytes as readable and writable.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), Self::BYTES) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: no code uses the memory any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), Self::BYTES) };
    }
}

/// Writes every third page. Returns the expected contents of the memory.
fn write(memory: &mut [u8]) -> Vec<u8> {
    let mut expected = vec![0; memory.len()];
    for (nth, page) in expected.chunks_mut(PAGE).enumerate().step_by(3) {
        page[..8].copy_from_slice(&nth.to_le_bytes());
        page[100..2000].fill(nth as u8 | 1);
        memory[nth * PAGE..(nth + 1) * PAGE].copy_from_slice(page);
    }
    expected
}

#[test]
fn memory_with_holes_can_be_managed_and_given_back() {
    for_each_backend(|backend| {
        let mut memory = Mapped::new();
        let mut expected = write(&mut memory);
        let region = memory.manage(backend);
        assert!(*memory == expected, "holes are zeros");
        region.reclaim(4 * MIB);
        assert!(region.stats().evicted >= (4 * MIB / PAGE) as u64);
        assert!(*memory == expected);
        for at in (PAGE..Mapped::BYTES).step_by(5 * PAGE) {
            (memory[at], expected[at]) = (77, 77);
        }
        region.reclaim(usize::MAX >> 1);
        region.check();
        drop(region);
        assert!(*memory == expected);
        in_child(|| assert!(*memory == expected, "a child has it again"));
        // The region was dropped, so the kernel is allowed to drop pages, which then read as zeros.
        // SAFETY: only this test uses the memory.
        unsafe { libc::madvise(memory.0.as_ptr().cast(), Mapped::BYTES, libc::MADV_DONTNEED) };
        assert!(memory.iter().all(|&byte| byte == 0));
    });
}

/// The error contains the address of the locked page.
#[test]
fn the_page_that_can_not_be_managed_is_named() {
    let memory = Mapped::new();
    let first = memory.0.addr().get();
    let end = Mapped::BYTES / PAGE - 1;
    for nth in [0, 1, 1000, end] {
        let page = memory.0.as_ptr().wrapping_add(nth * PAGE);
        // SAFETY: the page is part of the test's memory, and the call changes no data.
        assert_eq!(unsafe { libc::mlock(page.cast(), PAGE) }, 0);
        // SAFETY: the call fails, so the memory is not managed.
        let refused = unsafe { Region::manage(memory.0, Mapped::BYTES, Options::default()) };
        let Err(Error::Memory { at, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(at, first + nth * PAGE);
        // SAFETY: the page is part of the test's memory, and the call changes no data.
        assert_eq!(unsafe { libc::munlock(page.cast(), PAGE) }, 0);
    }
}

/// Threads access missing pages while blocks are evicted.
#[test]
fn holes_are_filled_beside_eviction() {
    for_each_backend(|backend| {
        let memory = Mapped::new();
        // SAFETY: `BYTES` bytes are mapped, and used only through these words.
        let words: &[AtomicU64] =
            unsafe { std::slice::from_raw_parts(memory.0.as_ptr().cast(), Mapped::BYTES / 8) };
        let pages: Vec<_> = words.chunks(PAGE / 8).collect();
        let region = memory.manage(backend);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = Stop(&stop);
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    region.reclaim(MIB);
                }
            });
            let adders = [0, 1, 2].map(|own| {
                let pages = &pages;
                scope.spawn(move || {
                    for round in 0..scaled(4, 20) as u64 {
                        for page in pages.iter().skip(own % 2).step_by(1 + own) {
                            assert!(page[own].fetch_add(1, Relaxed) == round, "of {own}");
                        }
                    }
                })
            });
            adders.into_iter().for_each(|adder| adder.join().unwrap());
        });
        region.check();
    });
}

/// A page that a child shares can't be moved until this process has a copy of its own.
#[test]
fn pages_that_a_child_shares_go_as_well() {
    for_each_backend(|backend| {
        let mut memory = Mapped::new();
        let expected = write(&mut memory);
        let (reader, writer) = std::io::pipe().unwrap();
        let (mut reader, mut writer) = (Some(reader), Some(writer));
        let child = Child::fork(|| {
            drop(writer.take());
            // The child waits here until the parent has closed the pipe.
            assert_eq!(std::io::read_to_string(reader.take().unwrap()).unwrap(), "");
            assert!(*memory == expected);
        });
        drop(reader);
        let region = memory.manage(backend);
        // The pager thread can evict some of the blocks at the same time.
        region.reclaim(usize::MAX >> 1);
        let stats = region.stats();
        assert_eq!(
            (stats.resident, stats.evicted),
            (0, (Mapped::BYTES / 4096) as u64),
            "{stats:?}"
        );
        assert!(*memory == expected);
        drop((region, writer));
        child.wait();
        assert!(*memory == expected);
    });
}

/// In a child, which has no pager thread, faulting threads evict while the region is dropped.
#[test]
fn memory_that_is_given_back_amid_touches_is_whole() {
    for_each_backend(|backend| {
        let mut memory = Mapped::new();
        let expected = write(&mut memory);
        let (limit, fork) = (Some(5 * MIB as u64), Fork::Copied);
        let options = Options { limit, backend, fork, ..Options::default() };
        // SAFETY: the memory is mapped until the end of the test.
        let region = unsafe { Region::manage(memory.0, Mapped::BYTES, options).unwrap() };
        let mut region = Some(region);
        for _ in 0..testkit::scaled(10, 100) {
            in_child(|| {
                let (stop, bytes) = (AtomicBool::new(false), &memory[..]);
                thread::scope(|scope| {
                    let _stop = Stop(&stop);
                    for own in 0..3 {
                        let (expected, stop) = (&expected, &stop);
                        scope.spawn(move || {
                            let pages = bytes.chunks(PAGE).zip(expected.chunks(PAGE));
                            let from = own * Mapped::BYTES / PAGE / 3;
                            for (page, expected) in pages.cycle().skip(from).step_by(7) {
                                assert!(page == expected);
                                if stop.load(Relaxed) {
                                    break;
                                }
                            }
                        });
                    }
                    thread::sleep(Duration::from_millis(20));
                    drop(region.take());
                });
                // The device was dropped with the region. A block that was not filled before would
                // have lost its data.
                assert!(*memory == expected);
            });
        }
        drop(region);
        assert!(*memory == expected);
    });
}
