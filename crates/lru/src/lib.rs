//! lru: caches that compress their values, and keep the most recently used ones within a limit of
//! memory.
//!
//! ```text
//!   put(key, value) -> Coder: compressed pieces -> Slots: keys, order of use -> the pool's entries
//!                      a trained dictionary        the oldest values are evicted at the limit
//! ```
//!
//! [`LruCache`] is a map from keys of any type to bytes. The limit includes everything: compressed
//! values, keys, tables, buffers. A small value compresses badly without a dictionary. So the cache
//! trains a dictionary when it holds enough small values.
//!
//! ```
//! let cache = lru::LruCache::new(lru::Options::new(1 << 20))?;
//! cache.put("greeting".to_owned(), b"hello")?;
//! assert_eq!(cache.get("greeting")?.as_deref(), Some(&b"hello"[..]));
//! assert!(cache.stats().held <= 1 << 20);
//! # Ok::<(), lru::Error>(())
//! ```
//!
//! [`raw`] is the cache for bindings of other languages, whose keys can't be compared while a lock
//! is held.
#![forbid(unsafe_code)]

mod cache;
mod error;
mod key;
mod options;
mod policy;
pub mod raw;

pub use cache::LruCache;
pub use error::Error;
pub use key::Key;
pub use options::{DictionarySource, Options};
pub use raw::Stats;
