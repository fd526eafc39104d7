//! The types in which the cache and its callers describe keys and values.

use super::coder::Packed;
use super::slots::Id;
use std::collections::TryReserveError;

/// The comparison of a key that is looked up with stored keys, under the lock.
pub trait Probe<K> {
    /// Returns whether the keys are equal, or `None` if that can't be determined under the lock.
    fn is_same(&self, kept: &K) -> Option<bool>;

    /// Returns another reference to the key.
    fn copy(&self, kept: &K) -> K;
}

/// The kind of look-up, and the results of comparisons without the lock.
#[derive(Debug)]
pub struct Verdicts {
    /// Whether a value may replace another one.
    pub replaces: bool,
    /// The value whose key is equal.
    pub same: Option<Id>,
    /// The values whose keys differ.
    pub others: Vec<Id>,
}

impl Default for Verdicts {
    fn default() -> Self {
        Verdicts { replaces: true, same: None, others: Vec::new() }
    }
}

/// A copy of a value, if there is memory for one, and the id of the value.
pub type Copied = (Id, Result<Packed, TryReserveError>);

/// The result of a call that looks up a key.
#[derive(Debug)]
pub enum Found<T, K> {
    /// The key exists.
    Yes(T),
    /// The key does not exist.
    No,
    /// The lock was released, so that the key can be compared with these.
    Ask(Vec<(Id, K)>),
}

/// A value to be stored.
#[derive(Debug)]
pub struct Offer<K> {
    /// Its key.
    pub key: K,
    /// The bytes of memory that the key uses.
    pub key_bytes: u32,
    /// The value.
    pub packed: Packed,
}

/// Keys and values that left the cache, to be dropped without the lock.
#[derive(Debug)]
pub struct Departed<K> {
    /// Keys whose values are not reported.
    pub keys: Vec<K>,
    /// The evicted keys and values, if the caller wants them.
    pub evicted: Vec<(K, Packed)>,
}

impl<K> Default for Departed<K> {
    fn default() -> Self {
        Departed { keys: Vec::new(), evicted: Vec::new() }
    }
}

/// Statistics of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The number of values.
    pub entries: usize,
    /// The maximum bytes of memory.
    pub limit: usize,
    /// The total bytes of memory used.
    pub held: usize,
    /// The bytes of the values before compression.
    pub stored: u64,
    /// The bytes of the values after compression.
    pub compressed: u64,
    /// The bytes of the dictionary.
    pub dictionary: usize,
    /// The number of look-ups that found a value.
    pub hits: u64,
    /// The number of look-ups that found none.
    pub misses: u64,
    /// The number of evicted values.
    pub evictions: u64,
}
