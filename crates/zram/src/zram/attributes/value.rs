//! Values that are written to attributes: words, and numbers in the format of the kernel's
//! `kstrto...` functions.

use crate::{BadValue, Error, memparse};

/// A text for an attribute, with the attribute's name for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'t> {
    pub(super) name: &'static str,
    pub(super) text: &'t str,
}

impl<'t> Value<'t> {
    /// Returns the error for an invalid value.
    pub(super) fn bad(self, why: BadValue, reason: &str) -> Error {
        let Value { name, text } = self;
        Error::Value { name, value: text.to_owned(), why, reason: reason.to_owned() }
    }

    pub(super) fn invalid(self, reason: &str) -> Error {
        self.bad(BadValue::Invalid, reason)
    }

    /// Parses a size with an optional suffix.
    pub(super) fn size(self) -> Result<u64, Error> {
        memparse::parse(self.text).map_err(|reason| self.invalid(&reason))
    }

    /// Parses a limit. Returns `None` for the number 0, which means no limit.
    pub(super) fn limit(self) -> Result<Option<u64>, Error> {
        Ok(Some(self.size()?).filter(|&bytes| bytes > 0))
    }

    /// Parses the whole text as a number. The error contains `expected`, a description of the valid
    /// values.
    pub(super) fn number<N: TryFrom<u64>>(self, base: Base, expected: &str) -> Result<N, Error> {
        unsigned(self.text, base).map_err(|why| self.bad(why, expected))
    }

    /// Parses the whole text as one of `words`, and returns the value of that word.
    pub(super) fn keyword<T: Copy>(self, words: &[(&str, T)]) -> Result<T, Error> {
        parse_keyword(words, self.text).map_err(|reason| self.invalid(&reason))
    }

    /// Returns the words, each split into key and value; `None` for a word of another form.
    pub(super) fn words(self) -> impl Iterator<Item = Option<(&'t str, &'t str)>> {
        let words = self.text.split_whitespace();
        words.map(|word| word.split_once('=').filter(|(_, value)| !value.is_empty()))
    }

    /// Returns the keys and values of all words, or an error if a word is not of the form
    /// `key=value`.
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

/// Returns the value of `word`, or an error that lists the valid words.
pub(super) fn parse_keyword<T: Copy>(words: &[(&str, T)], word: &str) -> Result<T, String> {
    let found = words.iter().find(|(other, _)| *other == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("expected one of {}", words.join(", "))
    })
}

/// The numeric bases that a text can use.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    Ten,
    Any,
}

/// Parses a number in base 10. With `Base::Any`, a prefix of `0x` means base 16, and a prefix of
/// `0` base 8. A `+` is allowed before the number.
///
/// # Errors
/// [`BadValue::Invalid`]: the text is not a number. [`BadValue::Range`]: the number does not fit.
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

/// Parses a number in base 10, negative or not.
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
