//! Values that several commands accept.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use zram::memparse;

/// Parses a whole number within bounds.
///
/// # Errors
/// Fails if the text is not a whole number or is out of bounds.
pub(crate) fn whole_number<N: FromStr + PartialOrd + Display>(
    text: &str,
    bounds: RangeInclusive<N>,
) -> Result<N, String> {
    text.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| {
        format!("expected a whole number from {} to {}", bounds.start(), bounds.end())
    })
}

/// Parses an algorithm's level, which the algorithm itself checks later.
///
/// # Errors
/// Fails if the text is not a number.
pub(crate) fn level(text: &str) -> Result<i32, String> {
    whole_number(text, i32::MIN..=i32::MAX)
}

/// Parses the size of a block in bytes.
///
/// # Errors
/// Fails if a device can't have blocks of this size.
pub(crate) fn block(text: &str) -> Result<usize, String> {
    match memparse::parse(text)? {
        bytes @ (4096 | 8192 | 16_384 | 32_768 | 65_536) => Ok(bytes as usize),
        _ => Err("expected 4K, 8K, 16K, 32K or 64K".to_owned()),
    }
}

/// Each element holds a name for the command line and reports, its help text, and its value.
pub(crate) type Names<T> = &'static [(&'static str, &'static str, T)];

pub(crate) fn named<T: Copy + Send + Sync>(names: Names<T>) -> impl TypedValueParser<Value = T> {
    let values = names.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values).try_map(move |text| {
        let found = names.iter().find(|(name, ..)| *name == text);
        found.map(|&(.., value)| value).ok_or("no such name")
    })
}

pub(crate) fn name_of<T: PartialEq>(names: Names<T>, value: T) -> &'static str {
    names.iter().find(|(.., named)| *named == value).map_or("", |(name, ..)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_within_their_bounds() {
        for (text, read) in
            [("0", None), ("1", Some(1)), ("9", Some(9)), ("10", None), ("-1", None), ("", None)]
        {
            assert_eq!(whole_number(text, 1..=9_u64).ok(), read, "'{text}'");
        }
        for text in ["x", "1.5", "300", " 1"] {
            let refused = whole_number(text, 0..=200_u8).unwrap_err();
            assert_eq!(refused, "expected a whole number from 0 to 200", "'{text}'");
        }
        assert_eq!((level("-5"), level("2147483648").is_err()), (Ok(-5), true));
    }
}
