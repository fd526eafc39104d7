//! Checks of the core's state, for tests.

use super::coder::Form;
use super::core::Core;
use super::samples::small_len;

/// Asserts that all parts of the core are consistent with each other.
pub fn check<K>(core: &Core<K>) {
    let values = &core.values;
    values.slots.check();
    values.pieces.pool.check();
    let (mut sums, mut of_coder) = ((0, 0, 0, 0, 0), [0; 2]);
    for first in values.slots.by_age() {
        let slot = &values.slots[first];
        assert!(values.has(first), "the table lacks a value");
        let packed = values.packed(first).expect("memory for a copy");
        let mut left = packed.value().expect("a value is whole").len();
        assert_eq!(left, slot.len as usize);
        for piece in values.slots.pieces(first).skip(1) {
            left -= values.block;
            assert_eq!(values.slots[piece].len as usize, left.min(values.block));
        }
        sums.0 += u64::from(slot.len);
        sums.1 += small_len(slot.len as usize, values.block);
        sums.2 += packed.bytes.len() as u64;
        sums.3 += slot.key_bytes as usize;
        sums.4 += 1;
        packed.parts().filter_map(|(form, _)| Form::index(form)).for_each(|i| of_coder[i] += 1);
    }
    let (stored, compressed) = (values.stored, values.pieces.compressed);
    let counted = (stored, values.small_stored, compressed, values.key_bytes, values.len());
    assert_eq!((sums, of_coder), (counted, values.pieces.of_coder));
    let coders = &values.coders.by_form;
    assert!(coders.iter().zip(of_coder).all(|(coder, n)| coder.is_some() || n == 0));
    assert!(core.held() <= core.limit, "{} of {} bytes", core.held(), core.limit);
}
