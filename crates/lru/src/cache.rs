//! The cache for programs in Rust.

use crate::key::{compare, key_bytes, known};
use crate::raw::{Copied, Departed, Offer, Put, RawLruCache, Verdicts};
use crate::{Error, Key, Options, Stats};
use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

/// A function that receives each evicted key and its value.
type OnEvict<K> = Box<dyn Fn(K, Vec<u8>) + Send + Sync>;

/// A map that compresses its values, and keeps the most recently used ones within a limit of
/// memory.
///
/// To stay within the limit, the cache evicts the least recently used values. [`get`](Self::get)
/// makes a value the most recently used; [`peek`](Self::peek) and [`contains`](Self::contains) do
/// not. Any thread can call any method. A thread holds no lock of the cache while it decompresses a
/// value. After a fork, parent and child each have a copy of the cache. If the system refuses
/// memory for a value that a call returns, the call fails and the value stays in the cache.
///
/// ```
/// let cache = lru::LruCache::new(lru::Options::new(1 << 20))?;
/// for user in 0..50_000_u64 {
///     cache.put(user, format!("{{\"id\":{user},\"name\":\"user {user}\"}}").as_bytes())?;
/// }
/// assert!(cache.len() < 50_000); // The oldest values were evicted.
/// assert_eq!(cache.get(&49_999)?.unwrap(), br#"{"id":49999,"name":"user 49999"}"#);
/// # Ok::<(), lru::Error>(())
/// ```
pub struct LruCache<K: Key> {
    raw: Arc<RawLruCache<K>>,
    hasher: RandomState,
    on_evict: Option<OnEvict<K>>,
}

impl<K: Key> fmt::Debug for LruCache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LruCache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl<K: Key> LruCache<K> {
    /// Returns an empty cache.
    ///
    /// # Errors
    /// Fails with [`Error::LimitTooSmall`] if the limit is too small, with [`Error::Codec`] if the
    /// algorithm does not accept the level or the dictionary, and with [`Error::Pool`] if the
    /// system refuses memory.
    pub fn new(options: Options) -> Result<Self, Error> {
        let (raw, hasher) = (RawLruCache::new(options)?, RandomState::new());
        Ok(LruCache { raw, hasher, on_evict: None })
    }

    /// Sets a function that receives each evicted key with its value.
    ///
    /// The function is called during the [`put`](Self::put) that evicts the value, on the same
    /// thread. The thread holds no lock, so the function can call the cache. If the system refuses
    /// memory for a copy of the value, the value is evicted without a call.
    #[must_use]
    pub fn on_evict(mut self, call: impl Fn(K, Vec<u8>) + Send + Sync + 'static) -> Self {
        self.raw.report_evicted();
        self.on_evict = Some(Box::new(call));
        self
    }

    /// Stores a copy of a value as the most recently used value, and removes the key's old value.
    ///
    /// When the cache holds enough small values, one call trains the dictionary and takes longer.
    /// During a call, the compressed value uses memory beyond the limit.
    ///
    /// # Errors
    /// Fails with [`Error::NoRoom`] if the value does not fit even in an empty cache. If a call
    /// fails, the key keeps its old value, unless the system refuses memory to store that value
    /// again.
    pub fn put(&self, key: K, value: &[u8]) -> Result<(), Error> {
        let (hash, mut departed) = (self.hash(&key), Departed::default());
        let (key_bytes, packed) = (key_bytes(&key), self.raw.pack(value)?);
        let mut offer = Some(Offer { key, key_bytes, packed });
        let (compare, all) = (|key: &K, kept: &K| compare(key)(kept), Verdicts::default());
        let put = self.raw.put(hash, &compare, &all, value, &mut offer, &mut departed);
        let stored = put.map(|put| {
            if let Put::Done(Some(due)) = put {
                self.raw.learn(due, &mut departed);
            }
        });
        if let Some(call) = &self.on_evict {
            for (key, packed) in departed.evicted {
                if let Ok(value) = packed.value() {
                    call(key, value);
                }
            }
        }
        stored
    }

    /// Returns the value of a key, or `None` if the key has no value. Makes the value the most
    /// recently used.
    ///
    /// # Errors
    /// Fails with [`Error::NoMemory`] or [`Error::Codec`] if the system refuses memory.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Result<Option<Vec<u8>>, Error>
    where
        K: Borrow<Q>,
    {
        self.find(key, true).map(|(_, packed)| packed?.value()).transpose()
    }

    /// Returns the value of a key without making it the most recently used, or `None` if the key
    /// has no value.
    pub fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Result<Option<Vec<u8>>, Error>
    where
        K: Borrow<Q>,
    {
        self.find(key, false).map(|(_, packed)| packed?.value()).transpose()
    }

    /// Copies at most `out.len()` bytes from the start of a value to `out`, and makes the value the
    /// most recently used. Returns the length of the whole value, or `None` if the key has no
    /// value.
    pub fn get_into<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
        out: &mut [u8],
    ) -> Result<Option<usize>, Error>
    where
        K: Borrow<Q>,
    {
        self.find(key, true).map(|(_, packed)| packed?.read(out)).transpose()
    }

    /// Does the same as [`get_into`](Self::get_into), without making the value the most recently
    /// used.
    pub fn peek_into<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
        out: &mut [u8],
    ) -> Result<Option<usize>, Error>
    where
        K: Borrow<Q>,
    {
        self.find(key, false).map(|(_, packed)| packed?.read(out)).transpose()
    }

    /// Returns true if the key has a value.
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let found = self.raw.contains(self.hash(key), &compare(key), &Verdicts::default());
        known(found).is_some()
    }

    /// Removes the value of a key. Returns true if the key had a value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let (all, mut departed) = (Verdicts::default(), Departed::default());
        known(self.raw.remove(self.hash(key), &compare(key), &all, &mut departed)).is_some()
    }

    /// Removes the value of a key and returns the value, or `None` if the key has no value.
    pub fn pop<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Result<Option<Vec<u8>>, Error>
    where
        K: Borrow<Q>,
    {
        while let Some((id, packed)) = self.find(key, false) {
            let value = packed?.value()?;
            // Another thread may have replaced the value after this thread found it.
            if self.raw.remove_same(id, &mut Departed::default()) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Removes the least recently used value, and returns it with its key. Returns `None` if the
    /// cache is empty.
    pub fn pop_oldest(&self) -> Result<Option<(K, Vec<u8>)>, Error>
    where
        K: Clone,
    {
        while let Some((key, (id, packed))) = self.raw.oldest(K::clone) {
            let value = packed?.value()?;
            if self.raw.remove_same(id, &mut Departed::default()) {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }

    /// Returns copies of all keys, the least recently used first.
    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        let mut keys = Vec::with_capacity(self.len());
        self.raw.for_each_key(|key| keys.push(key.clone()));
        keys
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns true if the cache has no values.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Removes all values, without reporting them as evicted.
    pub fn clear(&self) {
        self.raw.clear(&mut Departed::default());
    }

    /// Returns the statistics.
    pub fn stats(&self) -> Stats {
        self.raw.stats()
    }

    /// Asserts that the state of the whole cache is consistent, for tests. No other thread is
    /// allowed to use the cache during this call.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        self.raw.check();
    }

    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q, touches: bool) -> Option<Copied>
    where
        K: Borrow<Q>,
    {
        known(self.raw.get(self.hash(key), &compare(key), &Verdicts::default(), touches))
    }
}
