//! uzram: zram and zsmalloc in user space, under one roof.
//!
//! Compressed memory for programs: no root, no kernel module, nothing to be installed.
//!
//! ```
//! let device = uzram::Device::new(uzram::Config::new(1 << 30)?)?; // 1 GiB of addresses
//! device.write(5000, b"any offset, any length, any thread")?;
//! let mut bytes = [0; 10];
//! device.read(5000, &mut bytes)?;
//! assert_eq!(&bytes, b"any offset");
//! # Ok::<(), uzram::Error>(())
//! ```
//!
//! # Which type for which need
//! | you have | take | what it does |
//! |---|---|---|
//! | pages, images, anything with offsets | [`Device`] | reads and writes any range; compresses |
//! | the same, steered as the kernel's zram | [`Zram`] | attributes by name: `disksize` and more |
//! | blobs of all sizes behind a number | [`Pool`] | packs them densely; does not compress |
//! | millions of values of one type | [`Cache`] | as fast as an allocator, with less memory |
//! | memory that must stay a slice | [`Region`] | compresses it when cold; a touch fetches it |
//! | a block of bytes to compress | [`Codec`] | lz4, lz4hc, zstd by name; [`Dictionary`] |
//! | a device that others should mount | `serve` | NBD and FUSE; feature `serve` |
//!
//! A pool does not compress by itself, since small objects compress badly one by one; compress
//! with a codec and a dictionary before you store, as `examples/documents.rs` does.
//!
//! ```
//! let pool = uzram::Pool::new(uzram::PoolConfig::default())?;
//! let handle = pool.store(b"some bytes")?;
//! assert_eq!(&*pool.read(&handle)?, b"some bytes");
//! pool.free(handle)?;
//! # Ok::<(), uzram::Error>(())
//! ```
//!
//! # Sizing
//! Memory comes with the data and goes with them; an empty gibibyte of a device takes a few hundred
//! kilobytes, most of it streams (a context of the codec per processor; [`Config::streams`]).
//! A device takes 8 bytes of table for each 4 KiB slot that holds something, and 4 more each for
//! [`Config::checksums`] and [`Config::track_access`]. Of a pool, pages without an object are given
//! back at once, but for a few that are kept for the next ones. [`Device::mem_total`],
//! [`Pool::bytes`] and [`Arena::bytes`] count everything.
//!
//! Larger blocks ([`Config::block`], 8 to 64 KiB) compress better and cost more for a small read.
//! zstd takes less memory and more time than lz4.
//!
//! ```
//! let mut config = uzram::Config::new(1 << 30)?;
//! config.algorithm = uzram::by_name("zstd")?;
//! config.params = uzram::Params { level: Some(1), ..Default::default() };
//! config.block = 16 << 10;
//! let device = uzram::Device::new(config)?;
//! device.write(0, &[7; 1 << 16])?;
//! assert!(device.mm_stat().compr_data_size < 1 << 16);
//! # Ok::<(), uzram::Error>(())
//! ```
//!
//! # Limits
//! Without a limit there is none but the machine's, and a process that passes that one is killed.
//! Past a limit a call fails, and nothing that was stored is lost: [`Config::mem_limit`] counts
//! the pages of compressed data, in bytes, [`Config::total_limit`] all memory of a device, in
//! bytes; the limits of pools and caches count pages ([`PageConfig::limit`], in pages).
//! [`Error::errno`] is then ENOSPC, and ENOMEM where it is the system that refuses.
//!
//! ```
//! let mut config = uzram::Config::new(1 << 30)?;
//! config.mem_limit = Some(1 << 20);
//! let device = uzram::Device::new(config)?;
//! let mix = |n: u64| n.wrapping_mul(n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_ne_bytes();
//! let noise: Vec<u8> = (1 << 40..(1 << 40) + (1 << 18)).flat_map(mix).collect();
//! let error = uzram::Error::from(device.write(0, &noise).unwrap_err());
//! assert_eq!(error.errno(), 28); // ENOSPC
//! # Ok::<(), uzram::Error>(())
//! ```
//!
//! # Threads
//! Every type is `Send` and `Sync`, and every call may come from any thread at any time. Readers
//! share; a reader never waits for memory that is being moved. A call that writes may wait for
//! another one that writes or reads the same slot or object, for no longer than these take. A
//! thread that holds a [`ReadGuard`] must not write, or free, the same object: it would wait for
//! itself. Nor may it read it once more where another thread may write it: that one waits for the
//! guard, and holds off all that come after.
//!
//! # Fork
//! After a fork, parent and child have a copy each, in any moment that the fork comes, with
//! threads at work. [`Config::fork`] and [`PageConfig::in_children`] leave the data with the parent
//! instead, which spares the child its page tables; then its calls fail with ENODEV. Background
//! threads begin anew in the child when they are needed.
//!
//! # What is promised
//! - Bytes that are read are the bytes that were written, or the call fails.
//! - A call that fails has changed nothing, except as its documentation says: a write of several
//!   slots has written those before the one that its error names.
//! - Limits hold at any moment, not on average.
//! - Misuse of handles is found: a stale handle is refused, as is one of another pool.
//! - Not that data survive the process: [`Device::save`] and [`Device::restore`] are for that.
//!
//! # Errors
//! Each layer has an error of its own, and all become [`Error`] by `?`.
//!
//! # Features
//! `slab` and `zmem` are on by default. `serve` is not. None of them brings a command line.
//!
//! # Programs in C
//! libuzram has all of this for C and C++ (`make libuzram`; `uzram.h` documents it). It is the
//! package `uzram-capi`, which depends on this one, and so can't be a feature here. A library in
//! Rust that is to export the same functions beside its own depends on that package too, and says
//! `use uzram_capi as _;`.
//!
//! # Layers
//! The crates below are here in whole, under their names: [`page`], [`zsmalloc`], [`zcomp`],
//! [`zram`], `slab`, `zmem`, `serve`. The names of this page are theirs.
#![forbid(unsafe_code)]

mod error;

pub use error::Error;

// The layers, so that whatever their signatures name can be named.
pub use {page, zcomp, zram, zsmalloc};

pub use page::{Config as PageConfig, page_size};
pub use zcomp::{Codec, Dictionary, Params, by_name, codecs};
pub use zram::{
    Algorithm, BackingFile, Compaction, Config, Damage, Device, MmStat, Recompress, SLOT_BYTES,
    Selection, Which, Zram,
};
pub use zsmalloc::{Config as PoolConfig, Handle, Pool, ReadGuard};

#[cfg(feature = "serve")]
pub use serve;

#[cfg(feature = "slab")]
pub use slab::{self, Arena, Cache, CacheBox, ConstructedCache, Options as CacheOptions, RawCache};

#[cfg(feature = "zmem")]
pub use zmem::{self, Advice, Locked, Options as RegionOptions, Region};

// The examples of README are compiled, and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
