//! The unit of every input, and the kinds of pages that figures keep apart.

/// Bytes of a page here, whatever the system's page size is: those of a device's slot.
pub const PAGE_SIZE: usize = zram::SLOT_BYTES;

/// Returns the word that fills the whole page, or block, if one does: a device stores no data for
/// it. The kernel's rule: words of 8 bytes.
pub fn same_filled(page: &[u8]) -> Option<u64> {
    let (words, rest) = page.as_chunks::<8>();
    let (first, last) = (words.first()?, words.last()?);
    // Most pages differ at once in their last word.
    if first != last || !rest.is_empty() || words.iter().any(|word| word != first) {
        return None;
    }
    Some(u64::from_ne_bytes(*first))
}

/// Returns the offset of the first byte in which the two differ; a missing tail differs.
pub fn first_difference(left: &[u8], right: &[u8]) -> Option<usize> {
    if left == right {
        return None;
    }
    let common = left.iter().zip(right).take_while(|(l, r)| l == r).count();
    Some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_filled_is_by_words() {
        assert_eq!(same_filled(&[0; PAGE_SIZE]), Some(0));
        assert_eq!(same_filled(&[0x11; PAGE_SIZE]), Some(0x1111_1111_1111_1111));
        let mut page = [0; PAGE_SIZE];
        for (index, byte) in page.iter_mut().enumerate() {
            *byte = (index % 8) as u8;
        }
        assert!(same_filled(&page).is_some());
        for place in [0, 1000, PAGE_SIZE - 1] {
            let mut other = page;
            other[place] ^= 0x80;
            assert_eq!(same_filled(&other), None, "byte {place}");
        }
        assert_eq!(same_filled(&[]), None);
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert_eq!(first_difference(b"abc", b"abd"), Some(2));
        assert_eq!(first_difference(b"abc", b"ab"), Some(2));
    }
}
