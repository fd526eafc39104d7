//! Medians of a few measurements. A single disturbed run would distort a mean, but not a median.

use std::borrow::Borrow;

/// Returns the median of `values`. For an even number of values, returns the mean of the middle
/// two. Returns NaN if there are no values.
pub fn median(values: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[upper],
        _ => (sorted[upper - 1] + sorted[upper]) / 2.0,
    }
}

/// Returns the median over all rounds of the ratio of `one` to `other` in that round.
pub fn ratio(one: &[f64], other: &[f64]) -> f64 {
    median(one.iter().zip(other).map(|(one, other)| one / other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_even_one_none() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([7.0]), 7.0);
        assert!(median([0.0; 0]).is_nan());
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_ratios() {
        assert_eq!(ratio(&[1.0, 2.0, 9.0], &[2.0, 1.0, 3.0]), 2.0);
    }
}
