//! Pages: the unit of every input, and the test for same-filled pages.

/// The bytes of a page, which is a device's slot, independent of the system's page size.
pub const PAGE_SIZE: usize = zram::SLOT_BYTES;

/// Returns the word that fills the whole page or block, if there is such a word. A device stores no
/// data for such a page or block. Words have 8 bytes, as in the kernel.
pub fn same_filled(page: &[u8]) -> Option<u64> {
    let (words, rest) = page.as_chunks::<8>();
    let (first, last) = (words.first()?, words.last()?);
    // In most pages that are not same-filled, the last word already differs from the first.
    if first != last || !rest.is_empty() || words.iter().any(|word| word != first) {
        return None;
    }
    Some(u64::from_ne_bytes(*first))
}

/// Returns the offset of the first byte in which `left` and `right` differ, or `None` if they are
/// equal. If one is a prefix of the other, returns the length of the prefix.
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
