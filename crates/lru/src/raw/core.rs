//! The data behind the cache's lock: the table of keys, the slots, the pool, and the memory that
//! each of these uses.
//!
//! No code here calls methods of keys. The caller's [`Compare`] compares them. Keys are returned in
//! [`Departed`], so that they are dropped after the lock is released.

mod check;
mod evict;
mod put;
mod repack;
mod shrink;
mod store;

use super::coder::{Coder, Coders, Form, Packed, Piece};
use super::new_pool::begun_bytes;
use super::refusal::Refusal;
use super::samples::Due;
use super::slots::{Id, NONE, Slots};
use super::terms::{Compare, Comparison, Copied, Departed, Found, Offer, Stats, Verdicts};
use crate::Error;
use hashbrown::HashTable;
use std::collections::TryReserveError;
use std::sync::{Arc, Weak};
use zsmalloc::{Content, EntryPool};

/// The memory kept free for growing structures: 1/MARGIN_SHARE of the limit, bounded in bytes.
const MARGIN_SHARE: usize = 256;
const MARGIN: (usize, usize) = (16 << 10, 128 << 10);

/// All data behind the lock.
#[derive(Debug)]
pub struct Core<K> {
    pool: Arc<EntryPool>,
    slots: Slots<K>,
    /// The first slots of the values, by the hashes of their keys.
    table: HashTable<u32>,
    limit: usize,
    /// The order of the pool's objects; the bytes that a pool uses when new, and with one object.
    order: u32,
    new_pool_bytes: usize,
    begun_bytes: usize,
    /// The maximum length of a piece in bytes.
    block: usize,
    coders: Coders,
    /// All coders so far: a value may be unpacked after the coder that packed it was replaced.
    all_coders: Vec<Weak<Coder>>,
    /// The number of pieces that each coder has compressed.
    pieces_of: [u64; 2],
    /// The next step towards a trained dictionary, taken when enough values are stored.
    pub due: Option<Due>,
    /// The sum of the lengths in bytes of the values that have only one piece.
    small_stored: usize,
    key_bytes: usize,
    stats: Stats,
    /// Whether evicted values are returned to the caller.
    pub wants_evicted: bool,
    /// Whether values are being packed again, slot after slot.
    pub repacks: bool,
    refusals: u32,
}

/// Spreads a hash of 32 bits: the table uses the lowest bits and the seven highest ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl<K> Core<K> {
    /// Returns an empty core, which may use at most `limit` bytes of memory.
    pub fn new(
        (pool, order): (Arc<EntryPool>, u32),
        coder: Arc<Coder>,
        limit: usize,
    ) -> Result<Self, zsmalloc::Error> {
        Ok(Core {
            order,
            new_pool_bytes: pool.bytes(),
            begun_bytes: begun_bytes(order)?,
            pool,
            slots: Slots::new(),
            table: HashTable::new(),
            limit,
            block: coder.block(),
            all_coders: vec![Arc::downgrade(&coder)],
            coders: [Some(coder), None],
            pieces_of: [0; 2],
            due: None,
            small_stored: 0,
            key_bytes: 0,
            stats: Stats::default(),
            wants_evicted: false,
            repacks: false,
            refusals: 0,
        })
    }

    /// Returns the coder that packs new values.
    pub fn coder(&self) -> Option<Arc<Coder>> {
        self.coders[1].as_ref().or(self.coders[0].as_ref()).cloned()
    }

    /// Returns the coders in use.
    pub fn coders(&self) -> impl Iterator<Item = &Arc<Coder>> {
        self.coders.iter().flatten()
    }

    /// Returns all coders whose streams may be in use.
    pub fn live_coders(&self) -> Vec<Arc<Coder>> {
        self.all_coders.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns true if a value was packed with another coder than the current one.
    pub fn is_stale(&self, packed: &Packed) -> bool {
        let [first, trained] = &packed.coders;
        let is_ours = |coder: &Arc<Coder>| self.coders().any(|ours| Arc::ptr_eq(ours, coder));
        first.as_ref().is_some_and(|coder| self.coders[1].is_some() || !is_ours(coder))
            || trained.as_ref().is_some_and(|coder| !is_ours(coder))
    }

    /// Returns the pool, which may be replaced by another pool after the lock is released.
    pub fn pool(&self) -> &Arc<EntryPool> {
        &self.pool
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of bytes of memory used, without the pool's pages.
    fn beside_pages(&self) -> usize {
        let pages = self.pool.pages().used() * page::page_size();
        // Pages may have been freed between the two calls.
        self.held().saturating_sub(pages)
    }

    /// Returns the total number of bytes of memory used.
    pub fn held(&self) -> usize {
        self.fixed_bytes()
            + self.pool.bytes()
            + self.slots.bytes()
            + self.table.allocation_size()
            + self.key_bytes
    }

    /// Returns the number of bytes of memory used that do not belong to values.
    fn fixed_bytes(&self) -> usize {
        size_of::<Self>()
            + self.coders().map(|coder| coder.bytes()).sum::<usize>()
            + self.due.as_ref().map_or(0, Due::memory)
    }

    fn margin(&self) -> usize {
        (self.limit / MARGIN_SHARE).clamp(MARGIN.0, MARGIN.1)
    }

    /// Returns the statistics.
    pub fn stats(&self) -> Stats {
        let dictionary = self.coder().map_or(0, |coder| coder.dictionary_bytes());
        Stats {
            entries: self.len(),
            limit: self.limit,
            held: self.held(),
            dictionary,
            ..self.stats
        }
    }

    /// Returns the first slot of the value with the given key.
    pub fn find(&self, hash: u32, compare: Compare<'_, K>, verdicts: &Verdicts) -> Found<u32, K> {
        let mut unknown = Vec::new();
        for &first in self.table.iter_hash(spread(hash)) {
            let (slot, id) = (self.slots.get(first), self.slots.id(first));
            let is_other = slot.hash != hash || verdicts.others.contains(&id);
            let Some(key) = slot.key.as_ref().filter(|_| !is_other) else { continue };
            if verdicts.same == Some(id) {
                return Found::Yes(first);
            }
            match compare(key) {
                Comparison::Equal => return Found::Yes(first),
                Comparison::Different => {}
                Comparison::Unknown(copy) => unknown.push((id, copy)),
            }
        }
        if unknown.is_empty() { Found::No } else { Found::Ask(unknown) }
    }

    /// Counts a look-up of a value.
    pub fn count(&mut self, is_hit: bool) {
        let count = if is_hit { &mut self.stats.hits } else { &mut self.stats.misses };
        *count += 1;
    }

    /// Makes a value the most recently used.
    pub fn touch(&mut self, first: u32) {
        self.slots.touch(first);
    }

    /// Returns the first slot of the least recently used value.
    pub fn oldest(&self) -> Option<u32> {
        self.slots.oldest()
    }

    /// Returns the key of a value.
    pub fn key(&self, first: u32) -> Option<&K> {
        self.slots.get(first).key.as_ref()
    }

    /// Returns all keys, the least recently used first.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.by_age().filter_map(|first| self.key(first))
    }

    /// Returns the first slot of a value, if it still exists.
    pub fn by_id(&self, id: Id) -> Option<u32> {
        self.slots.by_id(id)
    }

    /// Returns a copy of a value, with the id of the value.
    pub fn copied(&self, first: u32) -> Copied {
        (self.slots.id(first), self.packed(first))
    }

    /// Returns a copy of a value, packed.
    ///
    /// # Errors
    /// If memory for the copy can't be allocated.
    pub fn packed(&self, first: u32) -> Result<Packed, Error> {
        let len = self.slots.get(first).len as usize;
        let no_memory = |_: TryReserveError| Error::NoMemory { bytes: len };
        let mut packed =
            Packed { len, pieces: Vec::new(), bytes: Vec::new(), coders: [None, None] };
        let mut piece = if len == 0 { NONE } else { first };
        while piece != NONE {
            let guard = self.pool.read(piece);
            if let Content::Object { bytes, flags } = guard.content() {
                let form = Form::of_flags(flags);
                packed.bytes.try_reserve(bytes.len()).map_err(no_memory)?;
                packed.bytes.extend_from_slice(bytes);
                packed.pieces.try_reserve(1).map_err(no_memory)?;
                packed.pieces.push(Piece { form, end: packed.bytes.len() });
                if form != Form::Raw && packed.coders[form as usize - 1].is_none() {
                    packed.coders[form as usize - 1] = self.coders[form as usize - 1].clone();
                }
            }
            piece = self.slots.get(piece).next;
        }
        Ok(packed)
    }
}
