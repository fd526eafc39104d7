//! Sizes in the format of the kernel's `memparse`: `4096`, `64K`, `1GiB`, `0x1000`, `010`.
//!
//! K, M, G and T, in upper or lower case, are binary units; `KB` and `KiB` mean the same as `K`. As
//! in the kernel, a prefix of `0x` means a hexadecimal number, and a prefix of `0` an octal number.
//! Unlike the kernel, this parser rejects trailing characters, and numbers that do not fit in 64
//! bits.

const EXPECTED: &str =
    "expected bytes, decimal or 0x, with K, M, G or T behind them for KiB to TiB, such as 64M";

/// Returns the number of bytes that `text` denotes.
///
/// # Errors
/// The text is not in this format, or the number does not fit in 64 bits. The error describes the
/// expected format.
pub fn parse(text: &str) -> Result<u64, String> {
    let (radix, digits) = radix_of(text);
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let shift = shift_of(suffix).filter(|_| !number.is_empty()).ok_or(EXPECTED)?;
    u64::from_str_radix(number, radix)
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| "too large, the most is 16 EiB less one byte".to_owned())
}

/// Returns the base of a number, and the text that begins with the first digit.
pub(crate) fn radix_of(text: &str) -> (u32, &str) {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match hex {
        Some(digits) => (16, digits),
        None if text.len() > 1 && text.as_bytes()[0] == b'0' => (8, text),
        None => (10, text),
    }
}

/// Returns the number of bits by which a suffix shifts the number.
fn shift_of(suffix: &str) -> Option<u32> {
    let (letter, rest) = match suffix.char_indices().nth(1) {
        Some((at, _)) => suffix.split_at(at),
        None => (suffix, ""),
    };
    let shift = match letter {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    matches!(rest, "" | "B" | "b" | "iB" | "ib").then_some(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("0K", 0),
            ("4096", 4096),
            ("64K", 65536),
            ("64k", 65536),
            ("64KB", 65536),
            ("64kb", 65536),
            ("64KiB", 65536),
            ("3M", 3 << 20),
            ("1GiB", 1 << 30),
            ("2T", 2 << 40),
            ("2TB", 2 << 40),
            ("0x1000", 4096),
            ("0X10k", 16 << 10),
            ("0x1b", 27),
            ("010", 8),
            ("010K", 8192),
            ("18446744073709551615", u64::MAX),
            ("16777215T", 16_777_215 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "K",
            "iB",
            "B",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1 G",
            "1.5G",
            "5X",
            "1KK",
            "1Ki",
            "1iB",
            "1B",
            "0x",
            "0xK",
            "08",
            "1\u{e4}",
            "\u{e4}",
            "64K\u{e4}",
            "64K\n",
        ] {
            assert_eq!(parse(text), Err(EXPECTED.to_owned()), "{text}");
        }
    }

    #[test]
    fn overflow_is_refused() {
        for text in
            ["18446744073709551616", "16777216T", "0x10000000000000000", "99999999999999999999K"]
        {
            assert!(parse(text).unwrap_err().starts_with("too large"), "{text}");
        }
    }
}
