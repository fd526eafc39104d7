//! Sizes as people write them: `4096`, `64K`, `1G`, `0x1000`; K, M, G and T are binary, as in the
//! kernel.

use crate::Error;

const EXPECTED: &str =
    "a number of bytes, decimal or 0x, with K, M, G or T behind it for KiB, MiB, GiB or TiB";

/// Bytes in one KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in one MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in one GiB.
pub const GIB: u64 = 1 << 30;

/// Bytes in MiB, for figures.
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

/// The number of bytes that `text` names.
pub fn parse(text: &str) -> Result<u64, Error> {
    let malformed =
        || Error::Malformed { thing: "a size".into(), text: text.into(), expected: EXPECTED };
    let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        Some(b'T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number = number(digits).ok_or_else(malformed)?;
    number.checked_mul(1 << shift).ok_or_else(malformed)
}

/// A decimal or 0x number, without sign or blanks.
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
    fn suffixes_are_binary() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64k", 65536),
            ("0x10", 16),
            ("4G", 4 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_expected_form() {
        for text in [
            "",
            "K",
            "-1",
            "+1",
            "1 G",
            "1GiB",
            "0x",
            "99999999999999999999",
            "999999999T",
            "\u{e4}",
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains("binary") || message.contains("KiB"), "{text}: {message}");
        }
    }
}
