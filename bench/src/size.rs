//! Conversion of bytes to binary units, and of arguments to numbers.

/// The number of bytes in one MiB.
pub const MIB: u64 = 1 << 20;
/// The number of bytes in one GiB.
pub const GIB: u64 = 1 << 30;

/// Converts bytes to MiB.
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

/// Returns the percentage by which `all` exceeds `part`.
pub fn percent_beyond(all: u64, part: u64) -> f64 {
    (all as f64 / part as f64 - 1.0) * 100.0
}

/// Parses a decimal number, or a hexadecimal number after `0x`, without a sign or blanks.
pub fn number(digits: &str) -> Option<u64> {
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (digits, 10),
    };
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        for (text, value) in [("0", 0), ("010", 10), ("0x10", 16), ("0XfF", 255)] {
            assert_eq!(number(text), Some(value), "{text}");
        }
        for text in ["", "0x", "-1", "+1", "1 ", "1K", "99999999999999999999", "\u{e4}"] {
            assert_eq!(number(text), None, "{text:?}");
        }
    }
}
