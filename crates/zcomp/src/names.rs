//! The names of the algorithms, which are the kernel's.

/// The codec that takes the first match that it finds.
pub(crate) const LZ4: &str = "lz4";

/// lz4's format, compressed with a longer search.
pub(crate) const LZ4HC: &str = "lz4hc";

/// Zstandard.
pub(crate) const ZSTD: &str = "zstd";

/// The codecs of this library, in the kernel's order.
pub(crate) const ALL: [&str; 3] = [LZ4, LZ4HC, ZSTD];

/// The names that the kernel has and this library does not support. They have an error of their
/// own.
pub(crate) const RESERVED: [&str; 4] = ["lzo-rle", "lzo", "deflate", "842"];

/// Returns the names of all codecs, in the kernel's order.
pub fn names() -> &'static [&'static str] {
    &ALL
}
