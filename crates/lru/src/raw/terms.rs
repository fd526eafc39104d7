//! The types by which the cache and its callers exchange keys, values and results.

use super::packed::Packed;
use super::samples::Due;
use super::slots::Id;
use crate::Error;

/// The result of a comparison of the key that is looked up with a stored key.
#[derive(Debug)]
pub enum Comparison<K> {
    /// The keys are equal.
    Equal,
    /// The keys differ.
    Different,
    /// The keys can't be compared while the lock is held. The variant contains a copy of the stored
    /// key.
    Unknown(K),
}

/// Compares a key that is looked up with a stored key, while the lock is held.
pub type Compare<'a, K> = &'a dyn Fn(&K) -> Comparison<K>;

/// The results of comparisons that the caller made without the lock, and the mode of a `put`.
#[derive(Debug)]
pub struct Verdicts {
    /// Whether `put` is allowed to replace an existing value of the key.
    pub replaces: bool,
    /// The value whose key equals the key that is looked up, if found.
    pub same: Option<Id>,
    /// The values whose keys differ from the key that is looked up.
    pub others: Vec<Id>,
}

impl Default for Verdicts {
    fn default() -> Self {
        Verdicts { replaces: true, same: None, others: Vec::new() }
    }
}

/// The id of a value, and a copy of the value, or an error if memory for the copy can't be
/// allocated.
pub type Copied = (Id, Result<Packed, Error>);

/// The result of a call that looks up a key.
#[derive(Debug)]
pub enum Found<T, K> {
    /// The key exists.
    Yes(T),
    /// The key does not exist.
    No,
    /// The result is unknown. The caller must compare the key with these keys, without the lock.
    Ask(Vec<(Id, K)>),
}

impl<T, K> Found<T, K> {
    /// Applies `with` to the result if the key exists.
    pub(super) fn map<U>(self, with: impl FnOnce(T) -> U) -> Found<U, K> {
        match self {
            Found::Yes(value) => Found::Yes(with(value)),
            Found::No => Found::No,
            Found::Ask(unknown) => Found::Ask(unknown),
        }
    }
}

/// A value to be stored.
#[derive(Debug)]
pub struct Offer<K> {
    /// The key of the value.
    pub key: K,
    /// The bytes of memory that the key uses.
    pub key_bytes: u32,
    /// The value.
    pub packed: Packed,
}

/// The result of [`put`](super::RawLruCache::put).
#[derive(Debug)]
pub enum Put<K> {
    /// The value is stored. If a step towards a dictionary is due, the caller passes it to
    /// [`learn`](super::RawLruCache::learn).
    Done(Option<Due>),
    /// The key already has a value, and `put` is not allowed to replace this value.
    There,
    /// The caller must compare the key with these keys.
    Ask(Vec<(Id, K)>),
}

/// Keys and values that were removed from the cache. Keys and values must be dropped without the
/// lock.
#[derive(Debug)]
pub struct Departed<K> {
    /// The keys whose values are not in `evicted`.
    pub keys: Vec<K>,
    /// The evicted keys and values, if the caller requested them.
    pub evicted: Vec<(K, Packed)>,
}

impl<K> Default for Departed<K> {
    fn default() -> Self {
        Departed { keys: Vec::new(), evicted: Vec::new() }
    }
}

/// Statistics of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of values.
    pub entries: usize,
    /// The limit of the cache's memory in bytes.
    pub limit: usize,
    /// The total number of bytes of memory used.
    pub held: usize,
    /// The number of bytes of the values before compression.
    pub stored: u64,
    /// The number of bytes of the values after compression.
    pub compressed: u64,
    /// The size of the dictionary in bytes.
    pub dictionary: usize,
    /// The number of look-ups that found a value.
    pub hits: u64,
    /// The number of look-ups that found no value.
    pub misses: u64,
    /// The number of evicted values.
    pub evictions: u64,
}
