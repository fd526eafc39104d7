//! The algorithms' names, which are the kernel's.

/// Takes the first match it finds.
pub(crate) const LZ4: &str = "lz4";

/// lz4's format, with a longer search.
pub(crate) const LZ4HC: &str = "lz4hc";

/// Zstandard.
pub(crate) const ZSTD: &str = "zstd";

/// The codecs of this library, in the kernel's order.
pub(crate) const ALL: [&str; 3] = [LZ4, LZ4HC, ZSTD];

/// Names the kernel knows and this library does not: they get an error of their own.
pub(crate) const RESERVED: [&str; 4] = ["lzo-rle", "lzo", "deflate", "842"];

/// Returns the names of all codecs, in the kernel's order.
pub fn names() -> &'static [&'static str] {
    &ALL
}
