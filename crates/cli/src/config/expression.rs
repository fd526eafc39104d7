//! Sizes in the syntax of zram-generator: a number of MiB, or an expression with `ram`, the size of
//! the machine's memory.
//!
//! ```text
//!   sum: product (+|- product)*    product: value (*|/ value)*
//!   value: NUMBER | SIZE with a unit | ram | min(sum, ...) | max(sum, ...) | (sum)
//! ```

use crate::policy::CONFIG_DEPTH;
use crate::text::shortened;
use zram::memparse;

const MIB: f64 = (1 << 20) as f64;

/// Returns the value of an expression in bytes. `ram` is the size of the machine's memory in bytes.
///
/// # Errors
/// Fails if the text is not an expression, or if its value is not a valid size.
pub(super) fn bytes(text: &str, ram: Option<u64>) -> Result<u64, String> {
    let mut parser = Parser { rest: text, ram, depth: 0 };
    let mib = parser.sum()?;
    if !parser.rest.trim().is_empty() {
        return Err(parser.unexpected());
    }
    let bytes = mib * MIB;
    if bytes.is_finite() && (0.0..u64::MAX as f64).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err("that comes to no size".to_owned())
    }
}

struct Parser<'t> {
    rest: &'t str,
    ram: Option<u64>,
    depth: usize,
}

impl Parser<'_> {
    fn unexpected(&self) -> String {
        let at = match self.rest.trim() {
            "" => "its end".to_owned(),
            rest => format!("'{}'", shortened(rest)),
        };
        format!("unexpected at {at}: expected MiB, or an expression such as min(ram / 2, 4096)")
    }

    fn takes(&mut self, token: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut sum = self.product()?;
        loop {
            if self.takes('+') {
                sum += self.product()?;
            } else if self.takes('-') {
                sum -= self.product()?;
            } else {
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut product = self.value()?;
        loop {
            if self.takes('*') {
                product *= self.value()?;
            } else if self.takes('/') {
                product /= self.value()?;
            } else {
                return Ok(product);
            }
        }
    }

    fn value(&mut self) -> Result<f64, String> {
        if self.takes('(') {
            let mut values = self.list()?;
            return values.pop().filter(|_| values.is_empty()).ok_or_else(|| self.unexpected());
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
        let word = &rest[..end.unwrap_or(rest.len())];
        let value = match word {
            "ram" => {
                let ram = self.ram.ok_or("the machine's memory is not known")?;
                Some(ram as f64 / MIB)
            }
            "min" | "max" => None,
            word => Some(number(word).ok_or_else(|| self.unexpected())?),
        };
        self.rest = &rest[word.len()..];
        if let Some(value) = value {
            return Ok(value);
        }
        if !self.takes('(') {
            return Err(self.unexpected());
        }
        let values = self.list()?.into_iter();
        let reduced = values.reduce(if word == "min" { f64::min } else { f64::max });
        reduced.ok_or_else(|| self.unexpected())
    }

    /// Reads a list of values and the bracket that closes the list.
    fn list(&mut self) -> Result<Vec<f64>, String> {
        self.depth += 1;
        if self.depth > CONFIG_DEPTH {
            return Err("too many brackets lie in each other".to_owned());
        }
        let mut values = vec![self.sum()?];
        while self.takes(',') {
            values.push(self.sum()?);
        }
        self.depth -= 1;
        if self.takes(')') { Ok(values) } else { Err(self.unexpected()) }
    }
}

/// Reads a number of MiB, or a size with a unit. Refuses hexadecimal numbers, because the unit of
/// such a number is ambiguous.
fn number(word: &str) -> Option<f64> {
    if word.starts_with("0x") || word.starts_with("0X") {
        return None;
    }
    if word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return word.parse().ok();
    }
    memparse::parse(word).ok().map(|bytes| bytes as f64 / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_those_of_zram_generator() {
        let ram = Some(8192 << 20);
        for (text, mib) in [
            ("512", 512),
            ("4G", 4096),
            ("ram", 8192),
            ("ram / 2", 4096),
            ("min(ram / 2, 1024)", 1024),
            ("max(ram/16, 1024, 1) + 2*3", 1030),
            ("min(min(ram, 4096) + max(ram - 4096, 0) / 2, 32 * 1024)", 6144),
            ("(1 + 2) * 3 - 1", 8),
            ("ram * 0.5", 4096),
            ("0", 0),
        ] {
            assert_eq!(bytes(text, ram), Ok(mib << 20), "{text}");
        }
        for text in
            ["", "ram /", "min", "min()", "1 2", "(1", "1)", "(1, 2)", "x", "1 - 2", "1 / 0", "1e9"]
        {
            assert!(bytes(text, ram).is_err(), "{text}");
        }
        assert!(bytes(&"(".repeat(100_000), ram).is_err());
        assert!(bytes("ram", None).unwrap_err().contains("not known"));
    }
}
