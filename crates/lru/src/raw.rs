//! The cache on which [`LruCache`](crate::LruCache) is built, for callers that compare keys
//! themselves. An example is the binding for Python, in which the comparison of two keys can run
//! code.
//!
//! A thread that holds the lock calls no method of a key except the comparison that the caller
//! passes. A thread that holds the lock does not wait for other threads. Removed keys and values
//! are returned in [`Departed`], so that the caller drops them without the lock. If a comparison
//! can't run while the lock is held, it returns [`Comparison::Unknown`]. The caller then compares
//! the keys, and calls again with the results in [`Verdicts`].
//!
//! The core is locked before the streams, and the streams before the pool. A fork takes the locks
//! in this order.

mod check;
mod coder;
mod coders;
mod core;
mod fork;
mod learn;
mod packed;
mod pieces;
mod put;
mod samples;
mod slots;
mod terms;
mod values;

pub use self::packed::Packed;
pub use self::samples::Due;
pub use self::slots::Id;
pub use self::terms::{Compare, Comparison, Copied, Departed, Found, Offer, Put, Stats, Verdicts};

use self::coder::{Coder, Form, Method};
use self::core::Core;
use self::pieces::Pieces;
use self::put::Storing;
use crate::policy::{BLOCKS, ROOM_MIN};
use crate::{DictionarySource, Error, Options};
use page::fork::{Mutex, Turn};
use std::sync::{Arc, Weak};
use zsmalloc::EntryPool;

/// The coders and the pool that are locked for a fork while the core is locked.
#[derive(Debug, Default)]
struct Held {
    coders: Vec<Arc<Coder>>,
    pool: Option<Arc<EntryPool>>,
}

/// A cache for several threads. A child of fork has a consistent copy.
#[derive(Debug)]
pub struct RawLruCache<K: Send + 'static> {
    core: Mutex<Core<K>>,
    method: Method,
    /// The coders and the pool that are locked for the current fork.
    held_for_fork: Mutex<Held>,
}

impl<K: Send + 'static> RawLruCache<K> {
    /// Returns an empty cache.
    ///
    /// # Errors
    /// Fails if the limit is too small, the codec does not accept the level or the dictionary, or
    /// the system refuses memory.
    pub fn new(options: Options) -> Result<Arc<Self>, Error> {
        let Options { limit, algorithm: codec, level, dictionary } = options;
        let order = BLOCKS.iter().find(|(from, _)| limit >= *from).map_or(0, |&(_, order)| order);
        let pieces = Pieces::new(order)?;
        let (given, due) = match dictionary {
            DictionarySource::Trained => (None, Some(Due::training(limit))),
            DictionarySource::Given(given) => (Some(given), None),
            DictionarySource::None => (None, None),
        };
        let block = pieces.pool.largest().min(page::page_size() << order);
        let method = Method { codec, level, block, limit };
        let coder = Arc::new(Coder::new(&method, given, Form::First)?);
        let core = Core::new(pieces, coder, limit, due);
        let least = core.empty_bytes() + ROOM_MIN;
        if limit < least {
            return Err(Error::LimitTooSmall { least });
        }
        let cache = Arc::new(RawLruCache {
            core: Mutex::new(core),
            method,
            held_for_fork: Mutex::default(),
        });
        let weak: Weak<Self> = Arc::downgrade(&cache);
        page::fork::register(weak, Turn::First);
        Ok(cache)
    }

    /// Makes later calls return the evicted values in [`Departed`].
    pub fn report_evicted(&self) {
        self.core.lock().wants_evicted = true;
    }

    /// Packs a value with the current coder.
    ///
    /// # Errors
    /// Fails if the value would exceed the limit, or memory can't be allocated.
    pub fn pack(&self, value: &[u8]) -> Result<Packed, Error> {
        let limit = self.method.limit;
        let coder = self.core.lock().values.coders.current().clone();
        Packed::pack(&coder, value, limit)
    }

    /// Stores `value` as the most recently used. `offer` contains the packed value and its key.
    /// `compare` compares the offered key, its first argument, with a stored key. If the value is
    /// stored, sets `offer` to `None`.
    ///
    /// # Errors
    /// Fails if the value is not stored. The key then keeps its old value, unless the system
    /// refuses memory to store that value again.
    pub fn put(
        &self,
        hash: u32,
        compare: &dyn Fn(&K, &K) -> Comparison<K>,
        verdicts: &Verdicts,
        value: &[u8],
        offer: &mut Option<Offer<K>>,
        out: &mut Departed<K>,
    ) -> Result<Put<K>, Error> {
        let mut core = self.core.lock();
        let Some(Offer { key, packed, key_bytes }) = offer else { return Ok(Put::Done(None)) };
        if core.values.is_stale(packed) {
            // The coder was replaced after the value was packed.
            drop(core);
            *packed = self.pack(value)?;
            return self.put(hash, compare, verdicts, value, offer, out);
        }
        let (bytes, key_bytes) = (value.len(), *key_bytes);
        let old = match core.values.find(hash, &|kept| compare(key, kept), verdicts) {
            Found::Yes(_) if !verdicts.replaces => return Ok(Put::There),
            Found::Yes(first) => Some(first),
            Found::No => None,
            Found::Ask(unknown) => return Ok(Put::Ask(unknown)),
        };
        let stored = Storing { core: &mut core, out, hash, old, bytes, key_bytes }.put(offer);
        let due = stored.is_ok().then(|| core.take_due()).flatten();
        core.tend(out);
        stored.map(|()| Put::Done(due))
    }

    /// Performs the step `due`, which [`put`](Self::put) returned, towards a trained dictionary.
    pub fn learn(&self, due: Due, out: &mut Departed<K>) {
        learn::learn(&self.core, &self.method, due, out);
    }

    /// Returns a copy of a value, if memory for the copy can be allocated. If `touches` is set,
    /// makes the value the most recently used and counts the look-up.
    pub fn get(
        &self,
        hash: u32,
        compare: Compare<'_, K>,
        verdicts: &Verdicts,
        touches: bool,
    ) -> Found<Copied, K> {
        let mut core = self.core.lock();
        let found = core.values.find(hash, compare, verdicts);
        match &found {
            Found::Yes(first) if touches => {
                core.stats.hits += 1;
                core.values.slots.touch(*first);
            }
            Found::No if touches => core.stats.misses += 1,
            _ => {}
        }
        found.map(|first| core.values.copied(first))
    }

    /// Returns whether the key exists.
    pub fn contains(
        &self,
        hash: u32,
        compare: Compare<'_, K>,
        verdicts: &Verdicts,
    ) -> Found<(), K> {
        self.core.lock().values.find(hash, compare, verdicts).map(drop)
    }

    /// Removes a value.
    pub fn remove(
        &self,
        hash: u32,
        compare: Compare<'_, K>,
        verdicts: &Verdicts,
        out: &mut Departed<K>,
    ) -> Found<(), K> {
        let mut core = self.core.lock();
        core.values.find(hash, compare, verdicts).map(|first| {
            out.keys.extend(core.values.remove(first));
            core.tend(out);
        })
    }

    /// Removes the value `id`, if it still exists. Returns true if the value was removed.
    pub fn remove_same(&self, id: Id, out: &mut Departed<K>) -> bool {
        let mut core = self.core.lock();
        let first = core.values.slots.by_id(id);
        out.keys.extend(first.and_then(|first| core.values.remove(first)));
        core.tend(out);
        first.is_some()
    }

    /// Returns copies of the least recently used value and of its key. The call does not count as a
    /// use.
    pub fn oldest(&self, copy: impl FnOnce(&K) -> K) -> Option<(K, Copied)> {
        let core = self.core.lock();
        let first = core.values.slots.oldest()?;
        let key = core.values.slots[first].key.as_ref()?;
        Some((copy(key), core.values.copied(first)))
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.core.lock().values.len()
    }

    /// Returns true if the cache has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `look` with each key, the least recently used first, with the lock held.
    pub fn for_each_key(&self, look: impl FnMut(&K)) {
        self.core.lock().values.keys().for_each(look);
    }

    /// Removes all values, without reporting them as evicted.
    pub fn clear(&self, out: &mut Departed<K>) {
        self.core.lock().clear(out);
    }

    /// Returns the statistics.
    pub fn stats(&self) -> Stats {
        self.core.lock().stats()
    }

    /// Asserts that the state of the cache is consistent. No other thread is allowed to pack or
    /// unpack a value during this call.
    pub fn check(&self) {
        check::check(&self.core.lock());
    }
}
