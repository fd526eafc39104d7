//! Compressed values by key, within a limit of memory: the cache without Python.
//!
//! A thread holds the lock only for work that calls no methods of keys and waits for no other
//! thread. Keys are compared, and removed keys and values dropped, without the lock. After
//! comparing keys, the caller calls again and passes the results in [`Verdicts`].
//!
//! Lock order: the core, the streams, the locks of the pool. A fork takes the locks in this order.

mod coder;
mod core;
mod fork;
mod learn;
mod new_pool;
mod plan;
mod refusal;
mod samples;
mod slots;
mod terms;

pub use self::coder::{Coder, Method, Packed};
pub use self::plan::{NoCache, Plan, Training};
pub use self::refusal::Refusal;
pub use self::samples::Due;
pub use self::slots::Id;
pub use self::terms::{Copied, Departed, Figures, Found, Offer, Probe, Verdicts};

use self::coder::Form;
use self::core::Core;
use self::new_pool::new_pool;
use std::sync::{Arc, Weak};
use uzram::page::fork::{Mutex, Turn};
use uzram::zsmalloc::EntryPool;

/// The minimum number of bytes within its limit that an empty cache must leave for values.
const ROOM_MIN: usize = 64 << 10;
/// Pairs of a minimum limit in bytes, and the order of the pool's objects from this limit on:
/// caches with larger limits use longer blocks.
const BLOCKS: [(usize, u32); 3] = [(8 << 20, 4), (2 << 20, 2), (0, 0)];

/// The result of an offer.
#[derive(Debug)]
pub enum Put<K> {
    /// The value is stored. Contains the next step towards a dictionary, for
    /// [`learn`](Kept::learn).
    Done(Option<Due>),
    /// Another value exists, and must not be replaced.
    There,
    /// The value was packed with a coder that has been replaced, and must be packed again.
    Stale,
    /// The caller must compare the key with these keys.
    Ask(Vec<(Id, K)>),
}

/// The coders and the pool that are locked for a fork, under the core's lock.
#[derive(Debug, Default)]
struct Held {
    coders: Vec<Arc<Coder>>,
    pool: Option<Arc<EntryPool>>,
}

/// A cache, which is thread-safe, and consistent in a child of fork.
#[derive(Debug)]
pub struct Kept<K: Send + 'static> {
    core: Mutex<Core<K>>,
    method: Method,
    /// The coders and the pool that are locked for the current fork.
    held_for_fork: Mutex<Held>,
}

impl<K: Send + 'static> Kept<K> {
    /// Returns an empty cache.
    ///
    /// # Errors
    /// See [`NoCache`].
    pub fn new(plan: Plan) -> Result<Arc<Self>, NoCache> {
        let Plan { limit, codec, level, dictionary, wants_evicted } = plan;
        let order = BLOCKS.iter().find(|(from, _)| limit >= *from).map_or(0, |&(_, order)| order);
        let pool = new_pool(order)?;
        let (given, trains) = match dictionary {
            Training::Itself => (None, true),
            Training::Given(given) => (Some(given), false),
            Training::Without => (None, false),
        };
        let block = pool.largest().min(uzram::page_size() << order);
        let method = Method { codec, level, block, limit };
        let coder = Arc::new(Coder::new(&method, given, Form::First)?);
        let mut core = Core::new((pool, order), coder, limit)?;
        core.due = trains.then(|| Due::training(limit));
        core.wants_evicted = wants_evicted;
        let least = core.empty_bytes() + ROOM_MIN;
        if limit < least {
            return Err(NoCache::Limit(least));
        }
        let kept =
            Arc::new(Kept { core: Mutex::new(core), method, held_for_fork: Mutex::default() });
        let weak: Weak<Self> = Arc::downgrade(&kept);
        uzram::page::fork::register(weak, Turn::First);
        Ok(kept)
    }

    /// Packs a value with the current coder.
    ///
    /// # Errors
    /// If the value would exceed the limit, or memory can't be allocated.
    pub fn pack(&self, value: &[u8]) -> Result<Packed, Refusal> {
        let core = self.core.lock();
        let (coder, limit) = (core.coder(), core.figures().limit);
        drop(core);
        match coder {
            Some(coder) => coder.pack(value, limit),
            None => unreachable!("a cache without a coder"),
        }
    }

    /// Stores a value as the most recently used.
    ///
    /// # Errors
    /// If the value is not stored; the old value of the key then stays.
    pub fn put(
        &self,
        hash: u32,
        probe: &dyn Probe<K>,
        verdicts: &Verdicts,
        offer: &mut Option<Offer<K>>,
        out: &mut Departed<K>,
    ) -> Result<Put<K>, Refusal> {
        let mut core = self.core.lock();
        if offer.as_ref().is_some_and(|offer| core.is_stale(&offer.packed)) {
            return Ok(Put::Stale);
        }
        let old = match core.find(hash, probe, verdicts) {
            Found::Yes(_) if !verdicts.replaces => return Ok(Put::There),
            Found::Yes(first) => Some(first),
            Found::No => None,
            Found::Ask(unknown) => return Ok(Put::Ask(unknown)),
        };
        let put = core.put(hash, old, offer, out);
        let due = put.is_ok().then(|| core.take_due()).flatten();
        core.tend(out);
        put.map(|()| Put::Done(due))
    }

    /// Returns a copy of a value, if memory for the copy can be allocated. If `touches` is set,
    /// makes the value the most recently used and counts the look-up.
    pub fn get(
        &self,
        hash: u32,
        probe: &dyn Probe<K>,
        verdicts: &Verdicts,
        touches: bool,
    ) -> Found<Copied, K> {
        let mut core = self.core.lock();
        let found = core.find(hash, probe, verdicts);
        if touches && !matches!(found, Found::Ask(_)) {
            core.count(matches!(found, Found::Yes(_)));
        }
        match found {
            Found::Yes(first) => {
                if touches {
                    core.touch(first);
                }
                Found::Yes(core.copied(first))
            }
            Found::No => Found::No,
            Found::Ask(unknown) => Found::Ask(unknown),
        }
    }

    /// Returns whether the key exists.
    pub fn contains(&self, hash: u32, probe: &dyn Probe<K>, verdicts: &Verdicts) -> Found<(), K> {
        match self.core.lock().find(hash, probe, verdicts) {
            Found::Yes(_) => Found::Yes(()),
            Found::No => Found::No,
            Found::Ask(unknown) => Found::Ask(unknown),
        }
    }

    /// Removes a value.
    pub fn remove(
        &self,
        hash: u32,
        probe: &dyn Probe<K>,
        verdicts: &Verdicts,
        out: &mut Departed<K>,
    ) -> Found<(), K> {
        let mut core = self.core.lock();
        match core.find(hash, probe, verdicts) {
            Found::Yes(first) => {
                out.keys.extend(core.remove(first));
                core.tend(out);
                Found::Yes(())
            }
            Found::No => Found::No,
            Found::Ask(unknown) => Found::Ask(unknown),
        }
    }

    /// Removes the value `id`, if it still exists. Returns true if the value was removed.
    pub fn remove_same(&self, id: Id, out: &mut Departed<K>) -> bool {
        let mut core = self.core.lock();
        let first = core.by_id(id);
        out.keys.extend(first.and_then(|first| core.remove(first)));
        core.tend(out);
        first.is_some()
    }

    /// Returns the least recently used value, as `get` does, and a copy of its key.
    pub fn oldest(&self, copy: impl FnOnce(&K) -> K) -> Option<(K, Copied)> {
        let core = self.core.lock();
        let first = core.oldest()?;
        Some((copy(core.key(first)?), core.copied(first)))
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.core.lock().len()
    }

    /// Calls `look` with each key, the least recently used first, while it holds the lock.
    pub fn for_each_key(&self, look: impl FnMut(&K)) {
        self.core.lock().keys().for_each(look);
    }

    /// Removes all values, without reporting them.
    pub fn clear(&self, out: &mut Departed<K>) {
        self.core.lock().clear(out);
    }

    /// Returns the statistics.
    pub fn figures(&self) -> Figures {
        self.core.lock().figures()
    }

    /// Asserts that all parts are consistent. No other thread may pack or unpack a value during
    /// this call.
    pub fn check(&self) {
        self.core.lock().check();
    }
}
