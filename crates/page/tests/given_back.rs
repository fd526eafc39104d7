//! Released pages are really free memory. Alone in its process, so that nothing else moves the figure.
#![allow(unsafe_code, clippy::unwrap_used)]

use page::{Config, PageSet, Space, page_size};

const PAGES: u32 = 256;
const EXTENTS: usize = 64;

/// A figure of a /proc file in bytes.
fn proc_bytes(file: &str, name: &str) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn released_pages_are_really_given_back() {
    let space = Space::<()>::new(Config::default()).unwrap();
    let resident = || proc_bytes("/proc/self/status", "RssAnon:");
    let before = resident();
    let ids: Vec<_> = (0..EXTENTS).map(|_| space.alloc(PAGES, 0).unwrap()).collect();
    for &id in &ids {
        space.charge(PAGES).unwrap();
        for page in 0..PAGES as u64 {
            let at = space.extent(id).start() + page * page_size() as u64;
            // SAFETY: the page was charged above; this thread alone uses the space.
            unsafe { space.write(at, b"x") };
        }
    }
    let whole = EXTENTS * PAGES as usize * page_size();
    let full = resident();
    assert!(full >= before + whole * 9 / 10, "{before} -> {full}, {whole} committed");
    // All but one page of each extent: with huge pages little would come back.
    let set = PageSet::default();
    set.insert(1..PAGES);
    for &id in &ids {
        // SAFETY: this thread alone uses the space, and reads none of these pages again.
        assert_eq!(unsafe { space.release(id, &set) }.len(), PAGES - 1);
    }
    let empty = resident();
    assert!(empty <= full - whole * 9 / 10, "{full} -> {empty} after releasing {whole}");
    assert_eq!(space.budget().used(), EXTENTS);
    space.check();
}
