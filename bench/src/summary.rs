//! Median, least and greatest of a few measurements.

use serde::Serialize;

/// What is told of a row of measurements; never a mean, which one disturbed run would spoil.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The middle one; of an even number, halfway between the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// Of at least one value; `None` of none.
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
}
