//! Tests segments that the system refuses to unmap, because the process has its maximum number of
//! mappings. This test runs in a separate process.
#![allow(unsafe_code, clippy::unwrap_used)]

use page::{Config, Request, Space, Supply};
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// Grants small segments only.
#[derive(Debug)]
struct Small;

impl Supply for Small {
    fn grant(&self, request: Request) -> bool {
        !matches!(request, Request::Map { bytes } if bytes > MIB)
    }
}

/// Returns the start and the end of each mapping of the process.
fn mappings() -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parse = |line: &str| {
        let (from, to) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
        (usize::from_str_radix(from, 16).unwrap(), usize::from_str_radix(to, 16).unwrap())
    };
    maps.lines().map(parse).collect()
}

/// Maps memory of the same kind directly after a segment, so that the system merges it with the
/// segment.
fn join(end: usize) {
    // SAFETY: MAP_FIXED_NOREPLACE never replaces an existing mapping, and no other code uses a new
    // one.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let (at, access) =
            (std::ptr::without_provenance_mut(end), libc::PROT_READ | libc::PROT_WRITE);
        let gap = libc::mmap(at, MIB, access, flags | libc::MAP_FIXED_NOREPLACE, -1, 0);
        if gap != libc::MAP_FAILED {
            libc::madvise(gap, MIB, libc::MADV_NOHUGEPAGE);
        }
    }
}

/// Creates mappings until the system refuses: sets different protections on neighbouring pages of
/// one mapping. Returns the mapping's start and its length.
fn exhaust() -> (usize, usize) {
    let (page, count) = (page::page_size(), 70_000);
    // SAFETY: no other code uses the new mapping.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let start = libc::mmap(std::ptr::null_mut(), count * page, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        for nth in (1..count).step_by(2) {
            if libc::mprotect(start.byte_add(nth * page), page, libc::PROT_READ) != 0 {
                return (start.addr(), count * page);
            }
        }
    }
    panic!("70,000 mappings, and more can be had: vm.max_map_count is larger here");
}

#[test]
fn segments_that_are_not_taken_back_stay_in_use() {
    if testkit::mappings_max() > 69_000 {
        return println!("vm.max_map_count is too large to be reached");
    }
    let config = Config { supply: Some(Arc::new(Small)), ..Config::default() };
    let space = Space::<()>::new(config).unwrap();
    let pages = (MIB / page::page_size()) as u32;
    let ids: Vec<_> = (0..40).map(|_| space.alloc(pages, 0).unwrap()).collect();
    let offsets: Vec<_> = ids.iter().map(|&id| space.extent(id).start()).collect();
    let address = |nth: usize| space.try_address(offsets[nth]).map(|at| at.addr().get());
    (0..40).for_each(|nth| join(address(nth).unwrap() + MIB));
    // To unmap a segment inside a larger mapping, the system must split that mapping in two.
    let maps = mappings();
    let is_amid = |nth: &usize| {
        let at = address(*nth).unwrap();
        maps.iter().any(|&(from, to)| from < at && at + MIB < to)
    };
    let amid: Vec<_> = (0..40).filter(is_amid).collect();
    assert!(amid.len() > 3, "no segments lie side by side: {maps:x?}");
    let (start, len) = exhaust();
    // The space keeps the first unused segment. The system refuses to unmap the other segments.
    // SAFETY: no thread uses the extent's addresses.
    amid.iter().for_each(|&nth| unsafe { space.free(ids[nth]) });
    space.check();
    let is_there = |nth: &&usize| address(**nth).is_some();
    let kept = amid.iter().filter(is_there).count();
    assert!(kept > 1, "all were unmapped, though there was no room for more mappings");
    let again: Vec<_> = (0..kept).map(|_| space.alloc(pages, 0).unwrap()).collect();
    for &id in &again {
        let start = space.extent(id).start();
        assert!(offsets.contains(&start), "{start:#x} is no segment that was there");
    }
    space.check();
    // SAFETY: `exhaust` created this mapping, and no other code uses it.
    assert_eq!(unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(start), len) }, 0);
    // SAFETY: no thread uses the extent's addresses.
    again.into_iter().for_each(|id| unsafe { space.free(id) });
    space.check();
    assert_eq!(amid.iter().filter(is_there).count(), 1, "one is kept, the others go");
}
