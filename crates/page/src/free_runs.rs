//! Free runs: consecutive granules that no extent uses, found in the bitmap of a section.
//!
//! ```text
//!   bitmap of a section: | 1 1 0 0 0 1 0 0 ... |   bit n is set while an extent uses granule n
//!   longest:             a number per section, the length of its longest free run
//! ```

use crate::max_tree::MaxTree;
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{bits, page_size};
use std::ops::Range;

/// The free runs of all sections of a space, guarded by the space's lock.
#[derive(Debug, Default)]
pub(crate) struct FreeRuns {
    /// The length of each section's longest free run, at most the length of the largest extent; 0
    /// for a section without address space.
    pub(crate) longest: MaxTree,
    /// A section's number. Every section with a lower number has address space.
    pub(crate) bare: u32,
}

impl FreeRuns {
    /// Returns the size of `longest` in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.longest.bytes()
    }
}

/// Returns the free runs in `range`, lowest first. A run longer than `most` is returned in parts of
/// at most `most` granules.
pub(crate) fn runs(
    used: &[AtomicU64],
    range: Range<u32>,
    most: u32,
) -> impl Iterator<Item = Range<u32>> {
    let last = range.end;
    let mut at = range.start;
    std::iter::from_fn(move || {
        let start = bits::first(used, at, false).filter(|&start| start < last)?;
        let end = last.min(start + most);
        let words = (end as usize).div_ceil(64);
        at = bits::first(&used[..words], start, true).map_or(end, |next| next.min(end));
        Some(start..at)
    })
}

/// Returns the length of the longest free run in `range`, but at most `enough`.
fn longest(used: &[AtomicU64], range: Range<u32>, enough: u32) -> u32 {
    let mut longest = 0;
    for run in runs(used, range, enough) {
        longest = longest.max(run.len() as u32);
        if longest == enough {
            break;
        }
    }
    longest
}

/// Returns the length of the longest free run after `taken` was marked as used. Before that, this
/// length was `before`. All free granules lie in `range`.
pub(crate) fn longest_after_alloc(
    used: &[AtomicU64],
    range: Range<u32>,
    taken: Range<u32>,
    before: u32,
) -> u32 {
    // `rest` is the remainder of the free run that began with `taken`. If that run was shorter than
    // `before`, another run has the length `before`.
    let rest = taken.end..(taken.start + before).min(range.end);
    let rest = runs(used, rest, before).next().filter(|run| run.start == taken.end);
    let rest = rest.map_or(0, |run| run.len() as u32);
    if taken.len() as u32 + rest < before {
        return before;
    }
    longest(used, range, before)
}

/// Returns the length of the longest free run after `given` was marked as free, but at most
/// `enough`. Before that, this length was `before`. The section has `granules` granules.
pub(crate) fn longest_after_free(
    used: &[AtomicU64],
    granules: u32,
    given: Range<u32>,
    before: u32,
    enough: u32,
) -> u32 {
    let around = given.start.saturating_sub(enough)..(given.end + enough).min(granules);
    longest(used, around, enough).max(before)
}

/// Returns the pages of a map that contain entries of `granules`, and in which no entry's granule
/// is used.
pub(crate) fn unused_pages(
    used: &[AtomicU64],
    granules: Range<u32>,
) -> impl Iterator<Item = usize> {
    let words = page_size() / size_of::<AtomicU32>() / 64;
    let last = (granules.end as usize).div_ceil(64 * words);
    (granules.start as usize / 64 / words..last).filter(move |page| {
        let bits = used.iter().skip(page * words).take(words);
        bits.map(|bits| bits.load(Relaxed)).all(|bits| bits == 0)
    })
}
