//! The allocator of the tests, which aborts the process if a fault uses the heap.

use crate::{MIB, for_each_backend, is_signal};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Read;
use std::os::fd::AsRawFd;
use testkit::child::{Child, in_child};
use testkit::scaled;
use zmem::{BlockOrder, Fork, Options, Region};

struct Watched;

// SAFETY: the functions call the system's allocator, or abort.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        end_in_handler();
        // SAFETY: the caller passes a valid layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        end_in_handler();
        // SAFETY: the caller passes an allocation of this allocator, with its layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

fn end_in_handler() {
    if zmem::in_handler() {
        let text = "the heap is used in a handler\n";
        // SAFETY: the pointer and the length are those of a local string.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        std::process::abort();
    }
}

/// Accesses more memory than the limit allows, first in order, and then in a scattered order.
fn use_all(region: &mut Region, rounds: usize) {
    for round in 0..rounds {
        for (nth, page) in region.chunks_mut(4096).enumerate() {
            if nth % 7 != round % 7 {
                let word = (nth * round).to_le_bytes();
                page[..8].copy_from_slice(&word);
                page[2048..2056].copy_from_slice(&word);
            }
        }
        let pages = region.len() / 4096;
        for nth in 0..pages {
            let at = nth * 7919 % pages * 4096;
            assert_eq!(region[at..at + 8], region[at + 2048..at + 2056]);
        }
    }
}

/// A fault that ends the process writes a message without using the heap.
#[test]
fn a_fault_that_can_not_be_answered_says_why() {
    for_each_backend(|backend| {
        if !is_signal(backend) {
            return;
        }
        let (mut reader, writer) = std::io::pipe().unwrap();
        let child = Child::fork(|| {
            let region = Region::new(4 * MIB, Options { backend, ..Options::default() }).unwrap();
            let start = region.as_ptr();
            // SAFETY: no code needs the unmapped memory. The next fault on this memory ends the
            // process.
            unsafe {
                libc::dup2(writer.as_raw_fd(), 2);
                libc::munmap(start.cast(), 4 * MIB);
                start.write_volatile(1);
            }
        });
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(libc::WTERMSIG(child.status()), libc::SIGABRT);
        assert!(said.contains("error 12 of the system"), "{said}");
    });
}

#[test]
fn faults_do_without_the_heap() {
    for_each_backend(|backend| {
        for (codec, block) in [
            ("lz4", BlockOrder::Fixed(0)),
            ("zstd", BlockOrder::Fixed(2)),
            ("lz4", BlockOrder::Adaptive(2)),
            ("zstd", BlockOrder::Adaptive(2)),
        ] {
            let options = Options {
                block,
                backend,
                codec: zcomp::by_name(codec).unwrap(),
                limit: Some(10 * MIB as u64),
                fork: Fork::Copied,
                ..Options::default()
            };
            let mut region = Region::new(16 * MIB, options).unwrap();
            use_all(&mut region, scaled(1, 3));
            // A child has no pager thread, so faulting threads of the child evict.
            in_child(|| {
                if !is_signal(backend) {
                    // All blocks were filled before the fork, so without this eviction no fault
                    // would occur.
                    region.reclaim(16 * MIB);
                }
                let evicted = region.stats().evicted;
                use_all(&mut region, 2);
                assert!(region.stats().evicted > evicted);
                region.check();
            });
        }
    });
}
