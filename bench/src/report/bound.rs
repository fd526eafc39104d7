//! The bounds of figures, such as `<= 2.0` and `>= 0.85`.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    AtMost,
    AtLeast,
    Below,
    Above,
    Equal,
}

/// A bound for a figure. A NaN meets no bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    relation: Relation,
    limit: f64,
}

impl Bound {
    /// The figure must not exceed `limit`.
    pub fn at_most(limit: f64) -> Bound {
        Bound { relation: Relation::AtMost, limit }
    }

    /// The figure must reach `limit`.
    pub fn at_least(limit: f64) -> Bound {
        Bound { relation: Relation::AtLeast, limit }
    }

    /// The figure must stay below `limit`.
    pub fn below(limit: f64) -> Bound {
        Bound { relation: Relation::Below, limit }
    }

    /// The figure must exceed `limit`.
    pub fn above(limit: f64) -> Bound {
        Bound { relation: Relation::Above, limit }
    }

    /// The figure, which is a count, must be exactly `value`.
    pub fn equal(value: f64) -> Bound {
        Bound { relation: Relation::Equal, limit: value }
    }

    /// Returns true if `value` meets the bound.
    pub fn met_by(&self, value: f64) -> bool {
        match self.relation {
            Relation::AtMost => value <= self.limit,
            Relation::AtLeast => value >= self.limit,
            Relation::Below => value < self.limit,
            Relation::Above => value > self.limit,
            Relation::Equal => value == self.limit,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.relation {
            Relation::AtMost => "<=",
            Relation::AtLeast => ">=",
            Relation::Below => "<",
            Relation::Above => ">",
            Relation::Equal => "==",
        };
        write!(f, "{sign} {}", self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_judge() {
        for (bound, text, met, missed) in [
            (Bound::at_most(2.0), "<= 2", vec![2.0, -1.0], vec![2.1, f64::NAN]),
            (Bound::at_least(0.85), ">= 0.85", vec![0.85, 9.0], vec![0.849, f64::NAN]),
            (Bound::below(3.0), "< 3", vec![2.9], vec![3.0]),
            (Bound::above(3.0), "> 3", vec![3.1], vec![3.0]),
            (Bound::equal(0.0), "== 0", vec![0.0], vec![1.0, f64::NAN]),
        ] {
            assert_eq!(bound.to_string(), text);
            assert!(met.iter().all(|&value| bound.met_by(value)), "{text}");
            assert!(!missed.iter().any(|&value| bound.met_by(value)), "{text}");
        }
    }
}
