//! The names of the algorithms, the same as in the kernel.

/// The name of the codec that uses the first match that it finds.
pub(crate) const LZ4: &str = "lz4";

/// The name of the codec that has lz4's format, but searches longer for matches.
pub(crate) const LZ4HC: &str = "lz4hc";

/// The name of the codec for Zstandard.
pub(crate) const ZSTD: &str = "zstd";

/// The names of this library's codecs, in the kernel's order.
pub(crate) const ALL: [&str; 3] = [LZ4, LZ4HC, ZSTD];

/// The names that the kernel supports, but this library does not.
/// [`Error::Unsupported`](crate::Error::Unsupported) reports these names.
pub(crate) const RESERVED: [&str; 4] = ["lzo-rle", "lzo", "deflate", "842"];

/// Returns the names of all codecs, in the kernel's order.
pub fn names() -> &'static [&'static str] {
    &ALL
}
