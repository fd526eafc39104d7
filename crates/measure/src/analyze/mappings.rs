//! The private mappings of a process, as /proc/PID/smaps tells.

use std::ops::Range;

/// A private mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) range: Range<u64>,
    /// Bytes of pages of its own that are resident.
    pub(super) anonymous: u64,
    swapped: u64,
}

/// Returns private mappings that have pages of their own, in memory or swapped out.
pub(super) fn mappings(smaps: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    let mut is_private = false;
    for line in smaps.lines() {
        if let Some((range, may_have)) = head(line) {
            is_private = may_have;
            found.extend(may_have.then_some(Mapping { range, anonymous: 0, swapped: 0 }));
        } else if let Some(mapping) = found.last_mut().filter(|_| is_private) {
            let bytes = |name| crate::memory::bytes(line, name);
            mapping.anonymous += bytes("Anonymous").unwrap_or(0);
            mapping.swapped += bytes("Swap").unwrap_or(0);
        }
    }
    found.retain(|mapping| mapping.anonymous + mapping.swapped > 0);
    found
}

/// Reads the first line of a mapping: its addresses, and whether it is private.
fn head(line: &str) -> Option<(Range<u64>, bool)> {
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some((address(start)?..address(end)?, words.next()?.ends_with('p')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_with_anonymous_pages_are_found() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0 \nRss: 8 kB\nAnonymous: 8 kB\nSwap: 0 kB\n\
            3000-4000 rw-p 00000000 00:00 0 \nAnonymous: 0 kB\nSwap: 4 kB\n\
            4000-5000 rw-s 00000000 00:00 0 \nAnonymous: 4 kB\n\
            5000-6000 r--p 00000000 00:00 7 /a b\nAnonymous: 0 kB\nSwap: 0 kB\n";
        let mapping = |range, anonymous, swapped| Mapping { range, anonymous, swapped };
        let expected = [mapping(0x1000..0x3000, 8192, 0), mapping(0x3000..0x4000, 0, 4096)];
        assert_eq!(mappings(smaps), expected);
    }
}
