//! The median, minimum and maximum of a few measurements.

use serde::Serialize;

/// The summary of a series of measurements. It contains no mean, because a single disturbed run
/// would distort it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The median. For an even number of values, the mean of the middle two.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// Returns the summary of `values`, or `None` if there are no values.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let upper = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[upper]
        } else {
            (sorted[upper - 1] + sorted[upper]) / 2.0
        };
        Some(Summary { median, min, max })
    }
}

/// Returns the smallest value that a `share` (0 to 1) of the values does not exceed, or `None` if
/// there are no values. Sorts the values.
pub fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_even_one_none() {
        assert_eq!(
            Summary::of(&[3.0, 1.0, 2.0]),
            Some(Summary { median: 2.0, min: 1.0, max: 3.0 })
        );
        assert_eq!(
            Summary::of(&[4.0, 1.0, 2.0, 3.0]),
            Some(Summary { median: 2.5, min: 1.0, max: 4.0 })
        );
        assert_eq!(Summary::of(&[7.0]), Some(Summary { median: 7.0, min: 7.0, max: 7.0 }));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let mut values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut values, 0.999), Some(999.0));
        assert_eq!(quantile(&mut values, 1.0), Some(1000.0));
        assert_eq!(quantile(&mut values, 0.0), Some(1.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
