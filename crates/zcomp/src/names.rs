//! The names of the algorithms, the same as in the kernel.

/// The codec that uses the first match that it finds.
pub(crate) const LZ4: &str = "lz4";

/// The codec with the format of lz4 that searches longer for matches.
pub(crate) const LZ4HC: &str = "lz4hc";

/// The codec of Zstandard.
pub(crate) const ZSTD: &str = "zstd";

/// The codecs of this library, in the kernel's order.
pub(crate) const ALL: [&str; 3] = [LZ4, LZ4HC, ZSTD];

/// The names that the kernel supports, but this library does not.
/// [`Error::Unsupported`](crate::Error::Unsupported) reports these names.
pub(crate) const RESERVED: [&str; 4] = ["lzo-rle", "lzo", "deflate", "842"];

/// Returns the names of all codecs, in the kernel's order.
pub fn names() -> &'static [&'static str] {
    &ALL
}
