//! Tests that released pages are returned to the system, and that the counted size of metadata
//! agrees with the system's count. The tests run one at a time, because they read the memory of the
//! whole process.
#![allow(unsafe_code, clippy::unwrap_used)]

use page::{Config, ExtentId, PageSet, Space, Zeroed, page_size};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

const PAGES: u32 = 256;
const EXTENTS: usize = 64;

struct Owners {
    _words: [AtomicU64; 12],
}

// SAFETY: `Owners` consists of atomic integers.
unsafe impl Zeroed for Owners {}

static ALONE: Mutex<()> = Mutex::new(());

/// Returns the bytes of the process's anonymous memory, which the system counts page by page.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find(|line| line.starts_with("Anonymous:")).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn metadata_is_counted_as_the_system_counts_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The maximum growth in bytes of the heap and of the harness's stacks during the test.
    let slack = 64 << 10;
    for (granule, pages) in [(1, 1), (16, 16)] {
        let mut ids = vec![ExtentId::from_raw(1).unwrap(); 40_000];
        let before = resident();
        let space = Space::<Owners>::new(Config { granule, ..Config::default() }).unwrap();
        let grown_as_counted = || {
            let (counted, grown) = (space.metadata_bytes(), resident().saturating_sub(before));
            assert!(grown.abs_diff(counted) <= slack, "{counted} counted, {grown} grown");
            counted
        };
        ids.fill_with(|| space.alloc(pages, 0).unwrap());
        let full = grown_as_counted();
        assert!(full > 4_000_000);
        // Only the last extents remain, so most pages of the tables have no used entry.
        // SAFETY: no thread uses the addresses of the freed extents.
        ids.drain(..39_000).for_each(|id| unsafe { space.free(id) });
        space.check();
        let left = grown_as_counted();
        assert!(left < full / 20, "{full} -> {left}");
    }
}

#[test]
fn released_pages_are_really_given_back() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let space = Space::<()>::new(Config::default()).unwrap();
    let before = resident();
    let ids: Vec<_> = (0..EXTENTS).map(|_| space.alloc(PAGES, 0).unwrap()).collect();
    for &id in &ids {
        space.charge(PAGES).unwrap();
        for page in 0..PAGES as u64 {
            let at = space.extent(id).start() + page * page_size() as u64;
            // SAFETY: the page was charged above. Only this thread uses the space.
            unsafe { space.write(at, b"x") };
        }
    }
    let whole = EXTENTS * PAGES as usize * page_size();
    let full = resident();
    assert!(full >= before + whole * 9 / 10, "{before} -> {full}, {whole} committed");
    // Releases all pages of each extent except page 0. If the system used huge pages, this would
    // free little memory.
    let mut set = <PageSet>::default();
    set.insert(1..PAGES);
    for &id in &ids {
        // SAFETY: only this thread uses the space, and it reads none of these pages again.
        assert_eq!(unsafe { space.release(id, &set) }.len(), PAGES - 1);
    }
    let empty = resident();
    assert!(empty <= full - whole * 9 / 10, "{full} -> {empty} after releasing {whole}");
    assert_eq!(space.budget().used(), EXTENTS);
    space.check();
}

/// One call releases pages of many extents. A locked page does not prevent the release of the other
/// pages.
#[test]
fn pages_of_many_extents_go_at_once() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let space = Space::<()>::new(Config::default()).unwrap();
    let make = |_| {
        let id = space.alloc(3, 0).unwrap();
        space.charge(3).unwrap();
        let mut pages = <PageSet>::default();
        // Each extent's set has two runs of pages. All sets together have more runs than one system
        // call accepts.
        pages.insert(0..1);
        pages.insert(2..3);
        space.populate(std::iter::once((id, &pages)));
        let (start, page) = (space.extent(id).start(), page_size() as u64);
        // SAFETY: the pages were charged, and only this thread uses the space.
        (0..3).for_each(|nth| unsafe { space.write(start + nth * page, b"x") });
        (id, pages)
    };
    let byte = |id: ExtentId, page: usize| {
        // SAFETY: as above.
        unsafe { space.bytes(space.extent(id).start() + (page * page_size()) as u64, 1)[0] }
    };
    let batch: Vec<_> = (0..100).map(make).collect();
    let locked = batch[50].0;
    let at = space.address(space.extent(locked).start());
    // SAFETY: the range is a page of a live extent, and is unlocked below.
    unsafe { rustix::mm::mlock(at.as_ptr().cast(), page_size()).unwrap() };
    // SAFETY: only this thread uses the space, and it reads none of these pages again.
    unsafe { space.release_all(batch.iter().map(|(id, pages)| (*id, pages))) };
    for (id, gone) in &batch {
        let stays = *id == locked;
        assert_eq!(
            (gone.contains(0), gone.contains(2), gone.len()),
            (!stays, true, 2 - u32::from(stays))
        );
        let bytes = [0, 1, 2].map(|page| byte(*id, page));
        assert_eq!(bytes, [if stays { b'x' } else { 0 }, b'x', 0], "{id:?}");
    }
    assert_eq!(space.budget().used(), 300 - 199);
    // SAFETY: as for `mlock`.
    unsafe { rustix::mm::munlock(at.as_ptr().cast(), page_size()).unwrap() };
}
