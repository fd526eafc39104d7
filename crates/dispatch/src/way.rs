//! The jumps that lead from sites to their stubs.
//!
//! The bytes after a site determine the address of the stub to which a single jump leads. If this
//! address is in use, the site jumps to a pad nearby, and the pad jumps to the stub (di-18). The
//! stubs to which pads jump lie together in pages below the code.

use crate::code::Mapping;
use crate::hook::hook;
use crate::policy::{FARTHEST_STUB, NEAREST_STUB, PAGE};
use crate::site::{Site, patched, with_stubs};
use crate::user::read_memory;
use crate::x86_64::pad::{self, Pad};
use crate::x86_64::stub::{self, JUMP_BYTES, STUB_BYTES};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The address at which the next stub for a pad is written, or 0 if no page has room for one. Only
/// the thread that holds the lock of `sites` uses this word.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The stub of a site, and the pad through which the site's jump leads to the stub, if any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) stub: usize,
    pub(crate) pad: Option<Pad>,
}

/// Maps memory for the stub of a site that contains the bytes `code`, and chooses a pad if the site
/// needs one. Returns `None` if no stub can be reached, or another site is too near.
pub(crate) fn find(site: usize, code: [u8; JUMP_BYTES], mapping: &Mapping) -> Option<Way> {
    let is_apart = |other: &Site| site.abs_diff(other.address.load(Relaxed)) >= JUMP_BYTES;
    patched().all(is_apart).then(|| direct(site, code).or_else(|| padded(site, mapping))).flatten()
}

fn direct(site: usize, code: [u8; JUMP_BYTES]) -> Option<Way> {
    let stub = stub::place(site, code)?;
    let is_apart = with_stubs().all(|other| stub.abs_diff(other.stub.load(Relaxed)) >= STUB_BYTES);
    let (first, last) = (stub / PAGE * PAGE, (stub + STUB_BYTES - 1) / PAGE * PAGE);
    let is_mapped = |page| is_ours(page) || hook().map_code(page..page + PAGE);
    let is_found = is_apart && (first..=last).step_by(PAGE).all(is_mapped);
    is_found.then_some(Way { stub, pad: None })
}

fn padded(site: usize, mapping: &Mapping) -> Option<Way> {
    if !pad::is_one_unit(site) {
        return None;
    }
    let around = pad::around(site);
    let (start, end) = (around.start.max(mapping.range.start), around.end.min(mapping.range.end));
    let mut code = [0; pad::AROUND_BYTES];
    let code = &mut code[..end - start];
    let is_read = read_memory(start, code);
    let is_whole = start < site && !pad::is_prefix(code[site - start - 1]);
    let address = (is_read && is_whole).then(|| pad::find(code, start, site)).flatten()?;
    let next = NEXT.load(Relaxed);
    let is_near = next != 0 && Pad::new(site, address, next).is_some();
    let stub = if is_near { next } else { page_below(mapping)? };
    let next = stub + STUB_BYTES;
    NEXT.store(if next % PAGE + STUB_BYTES <= PAGE { next } else { 0 }, Relaxed);
    // A thread may still execute the stub or the pad of a restored site.
    let is_apart = |other: &Site| {
        other.pad.load(Relaxed) != address && stub.abs_diff(other.stub.load(Relaxed)) >= STUB_BYTES
    };
    if !with_stubs().all(is_apart) {
        return None;
    }
    Some(Way { stub, pad: Some(Pad::new(site, address, stub)?) })
}

/// Maps a page for stubs below the code, and returns its address.
fn page_below(mapping: &Mapping) -> Option<usize> {
    let distances = std::iter::successors(Some(NEAREST_STUB), |distance| Some(distance * 2));
    let distances = distances.take_while(|distance| *distance <= FARTHEST_STUB);
    let pages = distances.filter_map(|distance| mapping.range.start.checked_sub(distance));
    pages.into_iter().find(|page| stub::is_address(*page) && hook().map_code(*page..*page + PAGE))
}

/// Returns true if a page contains stubs that no pad leads to. The free space of a page with stubs
/// of pads is kept for later pads.
fn is_ours(page: usize) -> bool {
    let end = page + PAGE;
    patched().any(|site| {
        let stub = site.stub.load(Relaxed);
        site.pad.load(Relaxed) == 0 && stub < end && page < stub + STUB_BYTES
    })
}

/// If the page for further stubs of pads overlaps `range`, whose mappings will change, lets the
/// next such stub be written to a new page.
pub(crate) fn forget(range: &Range<usize>) {
    let page = NEXT.load(Relaxed) / PAGE * PAGE;
    if page < range.end && range.start < page + PAGE {
        NEXT.store(0, Relaxed);
    }
}
