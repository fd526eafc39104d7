//! Slots that are one pattern over and over.

use super::PATTERN_BYTES;

/// The pattern that `block` consists of, if it does.
pub(crate) fn same_pattern(block: &[u8]) -> Option<u64> {
    let (words, rest) = block.as_chunks::<PATTERN_BYTES>();
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
    bytes.rotate_left(at % PATTERN_BYTES);
    let (words, rest) = buf.as_chunks_mut::<PATTERN_BYTES>();
    words.fill(bytes);
    rest.copy_from_slice(&bytes[..rest.len()]);
}
