//! Numbers as the kernel's `kstrto...` functions read them.

use crate::BadValue;

/// A number in base 10, or, with `0x` or `0` in front, in base 16 or 8 where `any_base` says so; a
/// `+` may come first.
///
/// # Errors
/// [`BadValue::Invalid`]: it is none. [`BadValue::Range`]: it does not fit.
pub(super) fn unsigned<T: TryFrom<u64>>(text: &str, base: Base) -> Result<T, BadValue> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let (radix, digits) = match base {
        Base::Ten => (10, digits),
        Base::Any => match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(digits) => (16, digits),
            None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
            None => (10, digits),
        },
    };
    check(digits, radix)?;
    let number = u64::from_str_radix(digits, radix).map_err(|_| BadValue::Range)?;
    T::try_from(number).map_err(|_| BadValue::Range)
}

/// A number in base 10 that may be below zero.
///
/// # Errors
/// As [`unsigned`].
pub(super) fn signed(text: &str) -> Result<i32, BadValue> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    check(digits, 10)?;
    text.parse().map_err(|_| BadValue::Range)
}

/// Which bases a number may be in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    Ten,
    Any,
}

fn check(digits: &str, radix: u32) -> Result<(), BadValue> {
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    if is_number { Ok(()) } else { Err(BadValue::Invalid) }
}
