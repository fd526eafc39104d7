//! Keys: types that can be hashed and compared, and whose memory counts towards the limit.

use crate::policy::HEAP_GRAIN;
use crate::raw::{Comparison, Found};
use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

/// A key of an [`LruCache`](crate::LruCache).
///
/// The cache compares and clones keys while it holds its lock, so `Eq`, `Borrow` and `Clone` of a
/// key must not call the cache.
///
/// ```
/// use lru::Key;
///
/// #[derive(PartialEq, Eq, Hash)]
/// struct Page {
///     user: u64,
///     path: String,
/// }
///
/// impl Key for Page {
///     fn heap_bytes(&self) -> usize {
///         self.path.heap_bytes()
///     }
/// }
/// # assert_eq!(Page { user: 1, path: String::new() }.heap_bytes(), 0);
/// ```
pub trait Key: Hash + Eq + Send + 'static {
    /// Returns the number of bytes of memory that the key uses in addition to the size of its type.
    fn heap_bytes(&self) -> usize {
        0
    }
}

macro_rules! plain_keys {
    ($($type:ty),*) => { $(impl Key for $type {})* };
}

plain_keys!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, char, bool, ());
plain_keys!(&'static str, &'static [u8]);

impl<K: Key, const N: usize> Key for [K; N] {
    fn heap_bytes(&self) -> usize {
        self.iter().map(Key::heap_bytes).sum()
    }
}

macro_rules! keys_on_the_heap {
    ($($type:ty: $bytes:ident),*) => { $(
        impl Key for $type {
            fn heap_bytes(&self) -> usize {
                self.$bytes()
            }
        }
    )* };
}

// The bytes of an `Arc` count in full, even if other `Arc`s share the bytes.
keys_on_the_heap!(String: capacity, Vec<u8>: capacity, Box<str>: len, Box<[u8]>: len);
keys_on_the_heap!(Arc<str>: len, Arc<[u8]>: len);

impl<A: Key, B: Key> Key for (A, B) {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes()
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes() + self.2.heap_bytes()
    }
}

/// Returns the number of bytes that a key uses outside of its slot, rounded up as allocators do.
/// The maximum is `u32::MAX`.
pub(crate) fn key_bytes<K: Key>(key: &K) -> u32 {
    let bytes = key.heap_bytes().checked_next_multiple_of(HEAP_GRAIN);
    bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX)
}

/// Returns the result of a look-up whose comparisons never return [`Comparison::Unknown`].
pub(crate) fn known<T, K>(found: Found<T, K>) -> Option<T> {
    match found {
        Found::Yes(value) => Some(value),
        Found::No => None,
        Found::Ask(_) => unreachable!("the comparison always knows"),
    }
}

/// Returns a function that compares a stored key with `key`.
pub(crate) fn compare<K: Borrow<Q>, Q: Eq + ?Sized>(key: &Q) -> impl Fn(&K) -> Comparison<K> {
    move |kept| match kept.borrow() == key {
        true => Comparison::Equal,
        false => Comparison::Different,
    }
}
