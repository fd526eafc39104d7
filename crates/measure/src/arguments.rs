//! Values that several commands take.

use std::fmt::Display;
use std::str::FromStr;
use zram::memparse;

/// Reads a whole number, as there are from `least` to `most`.
///
/// # Errors
/// It is none.
pub fn whole_number<N: FromStr + Display>(text: &str, least: N, most: N) -> Result<N, String> {
    text.parse().map_err(|_| format!("expected a whole number from {least} to {most}"))
}

/// Reads an algorithm's level.
///
/// # Errors
/// It is no number.
pub fn level(text: &str) -> Result<i32, String> {
    whole_number(text, i32::MIN, i32::MAX)
}

/// Reads the bytes of a block.
///
/// # Errors
/// There are no such blocks.
pub fn block(text: &str) -> Result<usize, String> {
    match memparse::parse(text)? {
        bytes @ (4096 | 8192 | 16_384 | 32_768 | 65_536) => Ok(bytes as usize),
        _ => Err("expected 4K, 8K, 16K, 32K or 64K".to_owned()),
    }
}
