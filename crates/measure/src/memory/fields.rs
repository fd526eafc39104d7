//! Reads files in /proc whose lines have the form `Name:   123 kB`.

use std::fs;

/// The error if the kernel does not report a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{path} has no {name}; mount proc on /proc, on Linux 4.14 or later")]
pub struct Untold {
    name: &'static str,
    path: &'static str,
}

/// The text of a file in /proc, or an empty text if the file can't be read.
pub struct Fields {
    path: &'static str,
    text: String,
}

impl Fields {
    /// Reads the file at `path`.
    pub fn read(path: &'static str) -> Self {
        Fields { path, text: fs::read_to_string(path).unwrap_or_default() }
    }

    /// Returns the number in the line `name`, in bytes.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        bytes(&self.text, name)
    }

    /// Returns the number in the line `name`, in bytes.
    ///
    /// # Errors
    /// Fails if the file has no such line.
    pub fn known(&self, name: &'static str) -> Result<u64, Untold> {
        self.bytes(name).ok_or(Untold { name, path: self.path })
    }
}

/// Returns the number in the line `name:   123 kB` of `text`, in bytes.
pub fn bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text =
            "00400000-7fff [rollup]\nRssAnon:   7 kB\nRss:     12 kB\nSwap:  0 kB\nBad: x kB\n";
        let fields = Fields { path: "/a/file", text: text.to_owned() };
        assert_eq!(fields.bytes("Rss"), Some(12288));
        assert_eq!(fields.known("Swap"), Ok(0));
        assert_eq!(fields.bytes("Bad"), None);
        let message = fields.known("VmPTE").unwrap_err().to_string();
        assert!(message.contains("/a/file has no VmPTE"), "{message}");
        assert_eq!(Fields::read("/no/such/file").bytes("Rss"), None);
    }
}
