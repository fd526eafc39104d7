//! A map of the program's mappings in a range of addresses.

use std::collections::BTreeMap;
use std::ops::Range;

/// The kinds of mapped memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Private, anonymous, readable and writable.
    Data,
    /// Private, anonymous, and PROT_NONE since its creation, so the memory has no contents.
    Reserved,
    /// Private and anonymous, with a protection other than that of `Data`.
    OtherProtection,
    /// Any other memory: file-backed, shared, or locked.
    Other,
    /// Sealed by the program (`mseal`): the kernel refuses all changes to the mapping.
    Sealed,
}

/// Ranges of addresses (pieces), each with one kind. Pieces do not overlap. Adjacent pieces of one
/// kind are merged.
#[derive(Debug)]
pub(crate) struct Pieces<K = Kind>(BTreeMap<usize, (usize, K)>);

impl<K> Pieces<K> {
    pub(crate) const fn new() -> Self {
        Pieces(BTreeMap::new())
    }
}

impl<K: Copy + Eq> Pieces<K> {
    /// Divides a range into parts that have one kind or are free, and calls `work` for each part,
    /// in ascending order. For a free part, the kind is `None`.
    pub(crate) fn for_parts(
        &self,
        range: Range<usize>,
        mut work: impl FnMut(Range<usize>, Option<K>),
    ) {
        let mut next = range.start;
        let before = self.0.range(..=range.start).next_back().map(|(&start, _)| start);
        let first = before.unwrap_or(range.start);
        for (&start, &(end, kind)) in self.0.range(first..range.end) {
            let (start, end) = (start.max(next), end.min(range.end));
            if start >= end {
                continue;
            }
            if next < start {
                work(next..start, None);
            }
            work(start..end, Some(kind));
            next = end;
        }
        if next < range.end {
            work(next..range.end, None);
        }
    }

    /// Returns the parts of a range as a list: see [`for_parts`](Self::for_parts).
    pub(crate) fn parts(&self, range: Range<usize>) -> Vec<(Range<usize>, Option<K>)> {
        let mut parts = Vec::new();
        self.for_parts(range, |part, kind| parts.push((part, kind)));
        parts
    }

    fn all(&self, range: Range<usize>, is: impl Fn(Option<K>) -> bool) -> bool {
        let mut are_all = true;
        self.for_parts(range, |_, kind| are_all &= is(kind));
        are_all
    }

    /// Returns whether one or several pieces cover a range completely.
    pub(crate) fn is_full(&self, range: Range<usize>) -> bool {
        self.all(range, |kind| kind.is_some())
    }

    /// Returns whether the whole range has the kind `of`.
    pub(crate) fn is_all(&self, range: Range<usize>, of: K) -> bool {
        self.all(range, |kind| kind == Some(of))
    }

    /// Returns whether a range is free.
    pub(crate) fn is_empty(&self, range: Range<usize>) -> bool {
        self.all(range, |kind| kind.is_none())
    }

    /// Sets the kind of a range. `None` makes the range free.
    pub(crate) fn set(&mut self, range: Range<usize>, kind: Option<K>) {
        if range.is_empty() {
            return;
        }
        self.split(range.start);
        self.split(range.end);
        let inner: Vec<_> = self.0.range(range.clone()).map(|(&start, _)| start).collect();
        inner.iter().for_each(|start| _ = self.0.remove(start));
        let Some(kind) = kind else { return };
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &(at, of))) = self.0.range(..start).next_back()
            && (at, of) == (start, kind)
        {
            start = before;
        }
        if let Some(&(behind, of)) = self.0.get(&end)
            && of == kind
        {
            self.0.remove(&end);
            end = behind;
        }
        self.0.insert(start, (end, kind));
    }

    /// Splits the piece that contains an address at that address.
    fn split(&mut self, at: usize) {
        let before = self.0.range(..at).next_back().map(|(&start, &piece)| (start, piece));
        if let Some((start, (end, kind))) = before
            && end > at
        {
            self.0.insert(start, (at, kind));
            self.0.insert(at, (end, kind));
        }
    }

    /// Returns the highest address, a multiple of `align`, at which `bytes` free bytes in `within`
    /// start.
    pub(crate) fn find(&self, within: Range<usize>, bytes: usize, align: usize) -> Option<usize> {
        let mut end = within.end;
        for (&start, &(behind, _)) in self.0.range(..within.end).rev() {
            if let Some(found) = fit(behind.max(within.start)..end, bytes, align) {
                return Some(found);
            }
            end = end.min(start);
            if start <= within.start {
                return None;
            }
        }
        fit(within.start..end, bytes, align)
    }

    #[cfg(test)]
    fn check(&self)
    where
        K: std::fmt::Debug,
    {
        let mut last: Option<(usize, K)> = None;
        for (&start, &(end, kind)) in &self.0 {
            assert!(start < end);
            if let Some((before, of)) = last {
                assert!(before < start || (before == start && of != kind), "{self:?}");
            }
            last = Some((end, kind));
        }
    }
}

/// Returns the highest address, a multiple of `align`, at which `bytes` bytes in `gap` start, or
/// `None` if the gap is too small.
fn fit(gap: Range<usize>, bytes: usize, align: usize) -> Option<usize> {
    let start = gap.end.checked_sub(bytes)? / align * align;
    (start >= gap.start).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    const KINDS: [Option<Kind>; 5] = [
        None,
        Some(Kind::Data),
        Some(Kind::Reserved),
        Some(Kind::OtherProtection),
        Some(Kind::Other),
    ];

    #[test]
    fn pieces_are_what_a_list_of_pages_is() {
        const PAGES: usize = 60;
        let mut rng = Rng::with_seed(testkit::seed(1));
        let (mut pieces, mut pages) = (Pieces::new(), [None; PAGES]);
        for _ in 0..20_000 {
            let start = rng.usize(..PAGES);
            let range = start..start + 1 + rng.usize(..(PAGES - start).min(12));
            let kind = *rng.choice(&KINDS).unwrap();
            pieces.set(range.clone(), kind);
            pages[range.clone()].fill(kind);
            pieces.check();
            let asked = rng.usize(..PAGES)..PAGES;
            let mut seen = Vec::new();
            for (part, kind) in pieces.parts(asked.clone()) {
                assert!(!part.is_empty());
                seen.extend(part.map(|_| kind));
            }
            assert_eq!(seen, pages[asked.clone()]);
            assert_eq!(pieces.is_full(asked.clone()), !pages[asked.clone()].contains(&None));
            let is_empty = pages[asked.clone()].iter().all(Option::is_none);
            assert_eq!(pieces.is_empty(asked), is_empty);
            let (bytes, align) = (1 + rng.usize(..6), 1 << rng.u32(..3));
            let within = rng.usize(..PAGES / 2)..PAGES - rng.usize(..8);
            let fits = |start: &usize| {
                start.is_multiple_of(align)
                    && start + bytes <= within.end
                    && pages[*start..start + bytes].iter().all(Option::is_none)
            };
            let expected = within.clone().rfind(fits);
            assert_eq!(pieces.find(within, bytes, align), expected);
        }
    }
}
