//! Pages, which are the unit of every input, and a test for same-filled pages.

/// The size of a page in bytes. A page is one slot of a device, and its size does not depend on the
/// system's page size.
pub const PAGE_SIZE: usize = zram::SLOT_BYTES;

/// Returns the 8-byte word that fills the whole page or block, if such a word exists. A device
/// stores no data for a same-filled page or block. The kernel's zram also compares 8-byte words.
pub fn same_filled(page: &[u8]) -> Option<u64> {
    let (words, rest) = page.as_chunks::<8>();
    let (first, last) = (words.first()?, words.last()?);
    // In most pages that are not same-filled, the last word already differs from the first word.
    if first != last || !rest.is_empty() || words.iter().any(|word| word != first) {
        return None;
    }
    Some(u64::from_ne_bytes(*first))
}

/// Returns the offset of the first byte in which `left` and `right` differ, or `None` if the slices
/// are equal. If one slice is a prefix of the other, returns the length of the prefix.
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
