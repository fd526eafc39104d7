//! What is written to an attribute: words, and numbers as the kernel's `kstrto...` functions read
//! them.

use crate::{BadValue, Error, memparse};

/// A text for an attribute, which errors name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'t> {
    pub(super) name: &'static str,
    pub(super) text: &'t str,
}

impl<'t> Value<'t> {
    /// Returns the error that says why it can't be.
    pub(super) fn bad(self, why: BadValue, reason: &str) -> Error {
        let Value { name, text } = self;
        Error::Value { name, value: text.to_owned(), why, reason: reason.to_owned() }
    }

    pub(super) fn invalid(self, reason: &str) -> Error {
        self.bad(BadValue::Invalid, reason)
    }

    /// Returns a size with a suffix.
    pub(super) fn size(self) -> Result<u64, Error> {
        memparse::parse(self.text).map_err(|reason| self.invalid(&reason))
    }

    /// Returns a limit: 0 is none.
    pub(super) fn limit(self) -> Result<Option<u64>, Error> {
        Ok(Some(self.size()?).filter(|&bytes| bytes > 0))
    }

    /// Returns all of it as a number.
    pub(super) fn number<N: TryFrom<u64>>(self, base: Base, expected: &str) -> Result<N, Error> {
        unsigned(self.text, base).map_err(|why| self.bad(why, expected))
    }

    /// Returns all of it as one of some words.
    pub(super) fn keyword<T: Copy>(self, words: &[(&str, T)]) -> Result<T, Error> {
        parse_keyword(words, self.text).map_err(|reason| self.invalid(&reason))
    }

    /// Its words, each a key and its value, or `None` for one that is not.
    pub(super) fn words(self) -> impl Iterator<Item = Option<(&'t str, &'t str)>> {
        let words = self.text.split_whitespace();
        words.map(|word| word.split_once('=').filter(|(_, value)| !value.is_empty()))
    }

    /// The same where each must be one.
    pub(super) fn key_values(
        self,
        expected: &str,
    ) -> Result<impl Iterator<Item = (&'t str, &'t str)>, Error> {
        match self.words().all(|word| word.is_some()) {
            true => Ok(self.words().flatten()),
            false => Err(self.invalid(expected)),
        }
    }
}

/// Returns what `word` means, or which words there are.
pub(super) fn parse_keyword<T: Copy>(words: &[(&str, T)], word: &str) -> Result<T, String> {
    let found = words.iter().find(|(other, _)| *other == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("expected one of {}", words.join(", "))
    })
}

/// Which bases a number may be in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    Ten,
    Any,
}

/// Returns a number in base 10, or, with `0x` or `0` in front, in base 16 or 8 where `base` says
/// so; a `+` may come first.
///
/// # Errors
/// [`BadValue::Invalid`]: it is none. [`BadValue::Range`]: it does not fit.
pub(super) fn unsigned<N: TryFrom<u64>>(text: &str, base: Base) -> Result<N, BadValue> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let (radix, digits) = match base {
        Base::Ten => (10, digits),
        Base::Any => memparse::radix_of(digits),
    };
    check(digits, radix)?;
    let number = u64::from_str_radix(digits, radix).map_err(|_| BadValue::Range)?;
    N::try_from(number).map_err(|_| BadValue::Range)
}

/// Returns a number in base 10 that may be below zero.
///
/// # Errors
/// As [`unsigned`].
pub(super) fn signed(text: &str) -> Result<i32, BadValue> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    check(digits, 10)?;
    text.parse().map_err(|_| BadValue::Range)
}

fn check(digits: &str, radix: u32) -> Result<(), BadValue> {
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    if is_number { Ok(()) } else { Err(BadValue::Invalid) }
}
