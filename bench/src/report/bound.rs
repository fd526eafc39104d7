//! The bounds of figures: `<= 2.0`, `>= 0.85` and the like.

use std::fmt;
use std::str::FromStr;

use crate::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    AtMost,
    AtLeast,
    Below,
    Above,
    Equal,
}

// A sign precedes every sign that is its prefix.
const SIGNS: [(&str, Relation); 5] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("==", Relation::Equal),
    ("<", Relation::Below),
    (">", Relation::Above),
];

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

    /// The figure must be exactly `value`; used for counts.
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
        let sign = SIGNS
            .iter()
            .find(|(_, relation)| *relation == self.relation)
            .map_or("?", |(sign, _)| sign);
        write!(f, "{sign} {}", self.limit)
    }
}

impl FromStr for Bound {
    type Err = Error;

    fn from_str(text: &str) -> Result<Bound, Error> {
        let malformed = || Error::Malformed {
            thing: "a bound".into(),
            text: text.into(),
            expected: "<=, >=, <, > or == and a number, as in \"<= 2.0\"",
        };
        let (relation, number) = SIGNS
            .iter()
            .find_map(|(sign, relation)| Some((*relation, text.trim().strip_prefix(sign)?)))
            .ok_or_else(malformed)?;
        let limit: f64 = number.trim().parse().map_err(|_| malformed())?;
        if limit.is_nan() { Err(malformed()) } else { Ok(Bound { relation, limit }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_judge() {
        for (text, met, missed) in [
            ("<= 2.0", vec![2.0, -1.0], vec![2.1, f64::NAN]),
            (">= 0.85", vec![0.85, 9.0], vec![0.849, f64::NAN]),
            ("< 3", vec![2.9], vec![3.0]),
            ("> 3", vec![3.1], vec![3.0]),
            ("==0", vec![0.0], vec![1.0, f64::NAN]),
        ] {
            let bound: Bound = text.parse().unwrap();
            assert!(met.iter().all(|&value| bound.met_by(value)), "{text}");
            assert!(!missed.iter().any(|&value| bound.met_by(value)), "{text}");
            assert_eq!(bound.to_string().parse::<Bound>().unwrap(), bound);
        }
        assert_eq!("<= 2.0".parse::<Bound>().unwrap(), Bound::at_most(2.0));
        assert_eq!(" >=0.85 ".parse::<Bound>().unwrap(), Bound::at_least(0.85));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "2.0", "<=", "=< 2", "<= x", "<= NaN", "=> 1", "!= 1"] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
    }
}
