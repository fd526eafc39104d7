//! Numbers chosen around those where something changes.

use arbitrary::{Result, Unstructured};

/// A number up to `most`: any, or one at an edge, just below it or just above.
pub fn around(input: &mut Unstructured, edges: &[usize], most: usize) -> Result<usize> {
    if input.ratio(1, 2)? {
        return input.int_in_range(0..=most);
    }
    let edge = *input.choose(edges)?;
    Ok((edge + input.int_in_range(0..=2usize)?).saturating_sub(1).min(most))
}
