//! zcomp: codecs for blocks of memory behind one trait, found by the kernel's names.
//!
//! ```text
//!   name -> by_name -> Codec -> stream_bytes -> Memory -> stream -> Stream: compress, decompress
//! ```
//!
//! A [`Codec`] is a constant and says what it can do. A [`Stream`] does it: one per thread, with all its
//! contexts in one [`Memory`] whose size is known beforehand, so nothing allocates once it is made.
//! Compressed blocks carry no length and no checksum: whoever stores them knows both ends.
//!
//! ```
//! let codec = zcomp::by_name("lz4")?;
//! let params = zcomp::Params::default();
//! let memory = zcomp::Memory::owned(codec.stream_bytes(&params, 4096)?)?;
//! let mut stream = codec.stream(&params, 4096, memory)?;
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
mod error;
mod lz4;
mod memory;
mod registry;
mod zstd;

pub use codec::{BLOCK_BYTES_MAX, Codec, Params, Stream};
pub use error::Error;
pub use memory::Memory;
pub use registry::{by_name, codecs};
