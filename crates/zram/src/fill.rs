//! Same-filled slots: one 64-bit pattern over and over.
//!
//! The pattern lies in the slot's entry where it fits the 59 bits there, else in an object of 8
//! bytes.
//!
//! ```text
//!   58 57   56 ... 0
//!   | 0 0 |    0     |   the slot is as its block has it, see [`crate::blocks`]: where that has nothing, nothing is stored
//!   | 0 1 |  value   |   the pattern is the value, its sign extended
//!   | 1 0 |  value   |   the pattern is the value's low 32 bits, twice
//!   | 1 1 |    0     |   nothing is stored, whatever the block has: the slot reads as zeros
//!   | 1 1 | 1  place |   none: they are in the backing store, see [`crate::cold`]
//! ```

const KIND_SHIFT: u32 = 57;
const SIGNED: u64 = 1;
const TWICE: u64 = 2;

/// The payload of a slot that holds nothing, where its block has an object.
pub(crate) const HOLE: u64 = 3 << KIND_SHIFT;
/// What payloads have that name a place in the backing store.
pub(crate) const BACKED: u64 = 7 << (KIND_SHIFT - 1);

/// The pattern that `block` consists of, if it does.
pub(crate) fn same_pattern(block: &[u8]) -> Option<u64> {
    let (words, rest) = block.as_chunks::<8>();
    let (&first, last) = (words.first()?, words.last());
    // Most blocks differ in their first line of memory, which spares the wait for the last one;
    // most others there, which spares the walk.
    if words.iter().take(8).any(|&word| word != first) || last != Some(&first) || !rest.is_empty() {
        return None;
    }
    words.iter().all(|&word| word == first).then(|| u64::from_ne_bytes(first))
}

/// Writes the pattern over `buf`, which begins `at` bytes into the slot.
pub(crate) fn fill(buf: &mut [u8], pattern: u64, at: usize) {
    let mut bytes = pattern.to_ne_bytes();
    bytes.rotate_left(at % 8);
    let (words, rest) = buf.as_chunks_mut::<8>();
    words.fill(bytes);
    rest.copy_from_slice(&bytes[..rest.len()]);
}

/// The pattern as the payload of an entry, if it fits.
pub(crate) fn to_payload(pattern: u64) -> Option<u64> {
    let low = pattern & ((1 << KIND_SHIFT) - 1);
    if extend(low) == pattern {
        Some(SIGNED << KIND_SHIFT | low)
    } else if pattern >> 32 == pattern & 0xffff_ffff {
        Some(TWICE << KIND_SHIFT | pattern >> 32)
    } else {
        None
    }
}

/// The pattern of a payload; `None` where nothing is stored.
pub(crate) fn from_payload(payload: u64) -> Option<u64> {
    let value = payload & ((1 << KIND_SHIFT) - 1);
    match payload >> KIND_SHIFT {
        SIGNED => Some(extend(value)),
        TWICE => Some(value << 32 | value),
        _ => None,
    }
}

fn extend(value: u64) -> u64 {
    ((value << (64 - KIND_SHIFT)) as i64 >> (64 - KIND_SHIFT)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_found_and_written() {
        let mut block = vec![0u8; 4096];
        assert_eq!(same_pattern(&block), Some(0));
        fill(&mut block, 0x1122_3344_5566_7788, 0);
        assert_eq!(same_pattern(&block), Some(0x1122_3344_5566_7788));
        for at in [8, 4095, 2000] {
            let mut other = block.clone();
            other[at] ^= 1;
            assert_eq!(same_pattern(&other), None, "byte {at}");
        }
        for (at, len) in [(0, 4096), (1, 10), (7, 1), (13, 4083), (4095, 1), (8, 0)] {
            let mut part = vec![0; len];
            fill(&mut part, 0x1122_3344_5566_7788, at);
            assert_eq!(part, block[at..at + len], "{len} bytes at {at}");
        }
    }

    #[test]
    fn payloads_keep_their_pattern() {
        let short =
            [0, 1, u64::MAX, 0x7fff_1234_5678, 0x4141_4141_4141_4141, 0xdead_beef_dead_beef];
        for pattern in short {
            let payload = to_payload(pattern).unwrap();
            assert_eq!(from_payload(payload), Some(pattern), "{pattern:#x}");
            assert!(payload != 0 && payload >> 59 == 0);
        }
        assert_eq!(to_payload(0x1122_3344_5566_7788), None);
        assert_eq!(from_payload(0), None);
    }
}
