//! zcomp: codecs for blocks of memory. All codecs implement one trait, and are found by the names
//! that the kernel uses.
//!
//! ```text
//!   name -> by_name -> Codec -> prepare(Params, block) -> Prepared -> stream() -> Stream
//! ```
//!
//! A [`Codec`] is a constant that describes an algorithm. [`Prepared`] holds checked parameters and
//! the digest of a [`Dictionary`]; its streams share this digest. A [`Stream`] compresses and
//! decompresses for one thread at a time. A stream allocates the memory of all its contexts when it
//! is created, and no memory later. (lz4hc has an exception, see [`Prepared::stream`].) A
//! compressed block contains no length and no checksum. So the caller must know a block's lengths
//! before and after compression.
//!
//! ```
//! let codec = zcomp::by_name("lz4")?;
//! let prepared = codec.prepare(&zcomp::Params::default(), 4096)?;
//! let mut stream = prepared.stream()?;
//!
//! let page = [7; 4096];
//! let mut compressed = [0; 4096];
//! let length = stream.compress(&page, &mut compressed)?.expect("a page of sevens gets smaller");
//! let mut back = [0; 4096];
//! stream.decompress(&compressed[..length], &mut back)?;
//! assert_eq!(page, back);
//! # Ok::<(), zcomp::Error>(())
//! ```

mod codec;
mod dictionary;
mod error;
mod lz4;
mod memory;
mod names;
mod policy;
mod registry;
mod train;
mod zstd;

pub use codec::{Codec, Params, Prepared, Stream};
pub use dictionary::Dictionary;
pub use error::Error;
pub use names::names;
pub use policy::{BLOCK_BYTES_MAX, DICTIONARY_BYTES_MIN};
pub use registry::{by_name, codecs};
pub use train::{samples_needed, train, train_lengths};
