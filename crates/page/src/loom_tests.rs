//! Models of the look-ups without a lock: `RUSTFLAGS="--cfg loom" cargo test --release -p
//! uzram-page --lib loom`.
//!
//! These tests use loom's atomics. No model reads an atomic in mapped memory, because loom does not
//! track mapped memory. One thread of each model makes all changes, because the code that changes a
//! structure holds the space's lock.
//!
//! # Safety
//! Zero bytes are a valid `Number`.
#![allow(unsafe_code, clippy::unwrap_used)]

use crate::config::SECTION_BYTES;
use crate::section::Section;
use crate::sync::AtomicU64;
use crate::table::GrowingTable;
use crate::zeroed::Zeroed;
use crate::{Budget, Extent, bits, page_size};
use loom::sync::Arc;
use loom::thread;
use std::ptr::NonNull;

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(body);
}

/// Runs `first` on this thread and `other` on a second thread.
fn beside<S: Send + Sync + 'static>(scene: S, first: fn(&S), other: fn(&S)) -> Arc<S> {
    let scene = Arc::new(scene);
    let shared = scene.clone();
    let thread = thread::spawn(move || other(&shared));
    first(&scene);
    thread.join().unwrap();
    scene
}

struct Number(#[allow(dead_code)] u64);

// SAFETY: zero bytes are a valid number.
unsafe impl Zeroed for Number {}

/// Every element with an index below the length lies in a chunk, even an element that was just
/// added.
#[test]
fn loom_table_push_against_look_up() {
    model(|| {
        let push: fn(&GrowingTable<Number>) =
            |table| (0..4).for_each(|_| _ = table.push(None).unwrap());
        let look: fn(&GrowingTable<Number>) = |table| {
            let len = table.len();
            assert!((0..len).all(|index| table.get(index).is_some()));
            let first = u32::from(len > 0);
            assert_eq!(table.slice(0, first).len(), first as usize);
        };
        beside(GrowingTable::<Number>::new(), push, look);
    });
}

/// An extent and its bit, as `alloc`, `free` and `live` use them.
struct Found {
    extent: Extent<()>,
    used: AtomicU64,
}

fn looked_at(found: &Found, may_be_gone: bool) {
    if bits::load_acquire(&found.used) & 1 != 0 {
        let pages = found.extent.pages();
        let (start, tag) = (found.extent.start() / page_size() as u64, found.extent.tag());
        let is_one = (pages, start, tag) == (8, 16, 5);
        assert!(is_one || (may_be_gone && pages == 0), "{pages} pages from {start}, tag {tag}");
    }
}

fn make(found: &Found) {
    found.extent.begin(16, 8, 5);
    assert!(!bits::set_release(&found.used, 0, true));
}

/// A thread that finds the bit set finds the extent.
#[test]
fn loom_extent_made_against_live() {
    model(|| {
        let found = Found { extent: Extent::unused(()), used: AtomicU64::new(0) };
        beside(found, make, |found| looked_at(found, false));
    });
}

/// A thread that finds the bit set finds the extent, or finds that it was freed.
#[test]
fn loom_extent_made_and_freed_against_live() {
    model(|| {
        let found = Found { extent: Extent::unused(()), used: AtomicU64::new(0) };
        let make_and_free: fn(&Found) = |found| {
            make(found);
            found.extent.end();
            assert!(bits::set_release(&found.used, 0, false));
        };
        beside(found, make_and_free, |found| looked_at(found, true));
    });
}

/// A thread reads `pages` before `start` and `tag`. The results of `pages`, `start` and `tag`
/// belong to one extent, or `start` and `tag` belong to a later extent with the same number.
#[test]
fn loom_extent_made_again_against_look_up() {
    model(|| {
        let first = Extent::unused(());
        first.begin(16, 8, 5);
        let again: fn(&Extent<()>) = |extent| {
            assert_eq!(extent.end(), (16, 8));
            extent.begin(32, 4, 7);
        };
        let look: fn(&Extent<()>) = |extent| {
            let pages = extent.pages();
            let (start, tag) = (extent.start() / page_size() as u64, extent.tag());
            assert!(pages != 4 || (start, tag) == (32, 7), "{pages} pages from {start}, tag {tag}");
            assert!(matches!(start, 16 | 32) && matches!(tag, 5 | 7));
        };
        beside(first, again, look);
    });
}

/// If a section has granules, it has a map for these granules. The section's base is the base of a
/// segment, or null.
#[test]
fn loom_section_attached_against_look_up() {
    const GRANULES: u32 = 16;
    model(|| {
        let base = || NonNull::new(std::ptr::without_provenance_mut(SECTION_BYTES)).unwrap();
        let attach: fn(&Section) = |section| {
            let base = NonNull::new(std::ptr::without_provenance_mut(SECTION_BYTES)).unwrap();
            for _ in 0..2 {
                // SAFETY: a page has 4 bytes for each granule. The base is never dereferenced.
                unsafe { section.attach(base, GRANULES, page_size(), None) }.unwrap();
                // SAFETY: no granule is used, and no memory is mapped at the base.
                unsafe { section.detach() };
            }
            // SAFETY: as for the first `attach`.
            unsafe { section.attach(base, GRANULES, page_size(), None) }.unwrap();
        };
        let look: fn(&Section) = |section| {
            if section.granules() > 0 {
                assert!(section.has_map(), "granules without a map");
            }
            let base = section.base();
            assert!(base.is_null() || base.addr() == SECTION_BYTES);
        };
        let section = beside(Section::unused(), attach, look);
        assert_eq!((section.granules(), section.base()), (GRANULES, base().as_ptr()));
        // SAFETY: `attach` created the map with this length, and no thread uses the section any
        // more.
        unsafe { section.destroy(page_size()) };
    });
}

/// `used <= limit` at all times, and a refused charge changes nothing.
#[test]
fn loom_budget_charged_by_two() {
    model(|| {
        let charge: fn(&Budget) = |budget| {
            if budget.charge(2).is_ok() {
                assert!(budget.used() <= 3);
                budget.uncharge(1);
            }
            if let Ok(charge) = budget.try_charge(1) {
                drop(charge);
            }
        };
        let budget = beside(Budget::new(Some(3)), charge, charge);
        assert!(matches!(budget.used(), 1 | 2), "{}", budget.used());
        assert!(budget.peak() <= 3);
    });
}
