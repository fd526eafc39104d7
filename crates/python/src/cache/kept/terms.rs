//! What is said of keys and values between the cache and who calls it.

use super::coder::Packed;
use super::slots::Id;
use std::collections::TryReserveError;

/// How a key that is looked for is compared with those that are kept, under the lock.
pub trait Probe<K> {
    /// Returns whether they are the same, or `None` if that can't be told under the lock.
    fn is_same(&self, kept: &K) -> Option<bool>;

    /// Returns another handle to the key.
    fn copy(&self, kept: &K) -> K;
}

/// What is asked for beside the key, and what comparisons without the lock have said.
#[derive(Debug)]
pub struct Verdicts {
    /// Whether a value takes the place of another.
    pub replaces: bool,
    /// The value whose key is the same.
    pub same: Option<Id>,
    /// Those whose keys are others.
    pub others: Vec<Id>,
}

impl Default for Verdicts {
    fn default() -> Self {
        Verdicts { replaces: true, same: None, others: Vec::new() }
    }
}

/// A copy of a value, if there is memory for one, and how the value can be told from others.
pub type Copied = (Id, Result<Packed, TryReserveError>);

/// What came of a call that looks for a key.
#[derive(Debug)]
pub enum Found<T, K> {
    /// The key is there.
    Yes(T),
    /// It is not.
    No,
    /// The lock is released, so that the key can be compared with these.
    Ask(Vec<(Id, K)>),
}

/// A value that is to be kept.
#[derive(Debug)]
pub struct Offer<K> {
    /// Its key.
    pub key: K,
    /// The bytes of memory that the key takes.
    pub key_bytes: u32,
    /// The value.
    pub packed: Packed,
}

/// What left the cache, to be dropped without the lock.
#[derive(Debug)]
pub struct Departed<K> {
    /// Keys.
    pub keys: Vec<K>,
    /// What had to make room, if its values are asked for.
    pub evicted: Vec<(K, Packed)>,
}

impl<K> Default for Departed<K> {
    fn default() -> Self {
        Departed { keys: Vec::new(), evicted: Vec::new() }
    }
}

/// Figures of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Values.
    pub entries: usize,
    /// Bytes of memory that it may take.
    pub limit: usize,
    /// Bytes of memory that it takes, everything counted.
    pub held: usize,
    /// Bytes of the values.
    pub stored: u64,
    /// Bytes of them compressed.
    pub compressed: u64,
    /// Bytes of the dictionary.
    pub dictionary: usize,
    /// Values that were asked for and there.
    pub hits: u64,
    /// Values that were asked for and not there.
    pub misses: u64,
    /// Values that had to make room.
    pub evictions: u64,
}
