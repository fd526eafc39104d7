//! uzram: zram and zsmalloc in user space, in one crate.
//!
//! Compressed memory for programs, without root, kernel modules or installation.
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
//! # Which type to use
//! | you have | use | description |
//! |---|---|---|
//! | pages, images, other data with offsets | [`Device`] | reads and writes any range; compresses |
//! | the same, with the kernel's controls | [`Zram`] | attributes by name: `disksize` and more |
//! | blobs of all sizes, by number | [`Pool`] | packs them densely; does not compress |
//! | blobs by key, within a limit | `LruCache` | compresses them; evicts the least recent |
//! | millions of values of one type | [`Cache`] | as fast as an allocator, with less memory |
//! | memory that must stay a slice | [`Region`] | compresses it when cold; an access restores it |
//! | a block of bytes to compress | [`Codec`] | lz4, lz4hc, zstd by name; [`Dictionary`] |
//! | a device that others should mount | `serve` | NBD and FUSE; feature `serve` |
//!
//! A pool does not compress objects, because single small objects compress badly. Compress objects
//! with a codec and a dictionary before you store them, or use an `LruCache`, which compresses its
//! values.
//!
//! ```
//! let pool = uzram::Pool::new(uzram::PoolConfig::default())?;
//! let handle = pool.store(b"some bytes")?;
//! assert_eq!(&*pool.read(&handle)?, b"some bytes");
//! pool.free(handle)?;
//! # Ok::<(), uzram::Error>(())
//! ```
//!
//! # LRU caches
//! `LruCache` is a map that compresses its values. To stay within its limit of memory, the cache
//! evicts the least recently used values. The cache trains a dictionary from its values if a
//! dictionary saves memory. `docs/lru.md` is a guide, and `examples/documents.rs` is an example.
//!
//! ```
//! # #[cfg(feature = "lru")] {
//! let cache = uzram::LruCache::new(uzram::LruOptions::new(4 << 20))?; // 4 MiB in all
//! cache.put("user/7".to_owned(), br#"{"name":"Ada"}"#)?;
//! assert_eq!(cache.get("user/7")?.unwrap(), br#"{"name":"Ada"}"#);
//! # }
//! # Ok::<(), uzram::Error>(())
//! ```
//!
//! # Sizing
//! Memory is allocated when data are stored, and released when the data are freed. An empty device
//! of 1 GiB takes a few hundred kilobytes, mostly for the codec's streams, one per processor
//! ([`Config::streams`]). For each 4 KiB slot that holds data, a device takes 8 bytes in its table.
//! [`Config::checksums`] and [`Config::track_access`] each add 4 bytes per slot. A pool releases
//! pages without objects at once, except a few pages that it keeps for the next objects.
//! [`Device::mem_total`], [`Pool::bytes`] and [`Arena::bytes`] include all this memory.
//!
//! Larger blocks ([`Config::block`], 8 to 64 KiB) compress better, but small reads cost more.
//! Compared with lz4, zstd takes less memory and more time.
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
//! If no limit is set, only the machine's memory limits the data, and the kernel can kill a process
//! that uses too much. If a limit is set, a call that would exceed the limit fails, and stored data
//! are not lost. [`Config::mem_limit`] limits the pages of compressed data, in bytes.
//! [`Config::total_limit`] limits all memory of a device, in bytes. The limits of pools and caches
//! are in pages ([`PageConfig::limit`]). An `LruCache` always has a limit, which includes all its
//! memory. [`Error::errno`] returns ENOSPC if a limit is reached, and ENOMEM if the system refuses
//! memory.
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
//! Every type is `Send` and `Sync`, and any thread can make any call at any time. Readers share
//! locks, and never wait for memory that is being moved. A call that writes a slot or object waits
//! until other calls that read or write it end. A thread that holds a [`ReadGuard`] must not write
//! or free the guarded object, because it would wait for itself. If another thread may write the
//! object, the thread with the guard must not read the object again. The reason is that a writer
//! waits for the guard, and blocks all later readers.
//!
//! # Fork
//! After a fork, the parent and the child each have a copy of all data. Other threads can make
//! calls during the fork. [`Config::fork`] and [`PageConfig::in_children`] can exclude the data
//! from the child, so that the child needs no page tables for the data. Calls in the child then
//! fail with ENODEV. Background threads are started again in the child when they are needed.
//!
//! # Guarantees
//! - A read returns the bytes that were written, or fails.
//! - A call that fails has changed nothing, unless its documentation states otherwise. For example,
//!   a failed write of several slots has written the slots before the slot in its error.
//! - Limits hold at any moment, not on average.
//! - Misuse of handles is detected: a stale handle and a handle of another pool are rejected.
//! - Data do not survive the process; use [`Device::save`] and [`Device::restore`] for that.
//!
//! # Errors
//! Each layer has its own error type, and `?` converts all of them to [`Error`].
//!
//! # Features
//! `lru`, `slab` and `zmem` are enabled by default, `serve` is not. No feature includes the
//! command-line tool.
//!
//! # Programs in C
//! libuzram is the library for C and C++ (`make libuzram`; `uzram.h` documents its functions). The
//! package of libuzram, `uzram-capi`, depends on this package, so it can't be a feature of this
//! package. A Rust library that exports the functions of `uzram.h` together with its own functions
//! also depends on `uzram-capi`, and contains `use uzram_capi as _;`.
//!
//! # Layers
//! All items of the underlying crates are re-exported under the crates' names: [`page`],
//! [`zsmalloc`], [`zcomp`], [`zram`], `lru`, `slab`, `zmem`, `serve`. The types of this page are
//! defined in these crates.
#![forbid(unsafe_code)]

mod error;

pub use error::Error;

// The layers are re-exported, so that callers can name all types in the layers' signatures.
pub use {page, zcomp, zram, zsmalloc};

pub use page::{Config as PageConfig, page_size};
pub use zcomp::{Codec, Dictionary, Params, by_name, codecs};
pub use zram::{
    Algorithm, BackingFile, Compaction, Config, Damage, Device, MmStat, Recompress, SLOT_BYTES,
    Selection, Which, Zram,
};
pub use zsmalloc::{Config as PoolConfig, Handle, Pool, ReadGuard};

#[cfg(feature = "lru")]
pub use lru::{self, DictionarySource, LruCache, Options as LruOptions};

#[cfg(feature = "serve")]
pub use serve;

#[cfg(feature = "slab")]
pub use slab::{self, Arena, Cache, CacheBox, ConstructedCache, Options as CacheOptions, RawCache};

#[cfg(feature = "zmem")]
pub use zmem::{self, Advice, Locked, Options as RegionOptions, Region};

// The examples of README, which are compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
