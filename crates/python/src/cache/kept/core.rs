//! What lies behind the cache's lock: the table of keys, the slots, the pool, and what each takes.
//!
//! Nothing here runs code of keys: they are compared as the caller's [`Probe`] says, and handed out
//! in [`Departed`], to be dropped once the lock is released.

use super::coder::{Coder, Coders, Form, Packed, Piece};
use super::samples::Samples;
use super::slots::{Id, NONE, Slots, Use};
use hashbrown::HashTable;
use std::sync::Arc;
use uzram::Error;
use uzram::zsmalloc::{Content, EntryPool};

/// Memory that the pool may not take, for what grows beside it within one call: this part of the
/// limit, within these bounds.
const MARGIN_SHARE: usize = 256;
const MARGIN: (usize, usize) = (16 << 10, 128 << 10);
/// So many times a value has to make room before the pool is asked to move objects together.
const REFUSALS: u32 = 32;
/// The pool moves objects together if that frees this part of its memory, ...
const FREEABLE_SHARE: usize = 32;
/// ... and frees no more than this at once, in bytes, as others wait.
const SHRINK_BYTES: usize = 1 << 20;
/// What the pool takes for an object beside its bytes, at worst: this part of them.
const WASTE_SHARE: usize = 8;

/// How a key that is looked for is compared with those that are kept, under the lock.
pub trait Probe<K> {
    /// Returns whether they are the same, or `None` if that can't be told under the lock.
    fn is_same(&self, kept: &K) -> Option<bool>;

    /// Returns another handle to the key.
    fn copy(&self, kept: &K) -> K;
}

/// What comparisons without the lock have said.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// The value whose key is the same.
    pub same: Option<Id>,
    /// Those whose keys are others.
    pub others: Vec<Id>,
}

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

/// Why a value is not kept.
#[derive(Debug)]
pub enum Refusal {
    /// There is no room, even without all others.
    NoRoom,
    /// The pool, or a codec, failed.
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Failed(error)
    }
}

impl From<uzram::zsmalloc::Error> for Refusal {
    fn from(error: uzram::zsmalloc::Error) -> Self {
        Refusal::Failed(error.into())
    }
}

/// Everything behind the lock.
#[derive(Debug)]
pub struct Core<K> {
    pool: Arc<EntryPool>,
    slots: Slots<K>,
    /// The first slots of values, by the hashes of their keys.
    table: HashTable<u32>,
    limit: usize,
    coders: Coders,
    /// Pieces that each coder has compressed.
    pieces_of: [u64; 2],
    /// Samples, as long as there are not enough.
    pub samples: Option<Samples>,
    key_bytes: usize,
    figures: Figures,
    /// Whether values that have to make room are asked for.
    pub wants_evicted: bool,
    refusals: u32,
}

/// Spreads a hash of 32 bits: the table looks at the lowest bits and the highest seven.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl<K> Core<K> {
    /// Returns an empty one, which may take `limit` bytes of memory.
    pub fn new(pool: Arc<EntryPool>, coder: Arc<Coder>, limit: usize) -> Self {
        Core {
            pool,
            slots: Slots::new(),
            table: HashTable::new(),
            limit,
            coders: [Some(coder), None],
            pieces_of: [0; 2],
            samples: None,
            key_bytes: 0,
            figures: Figures::default(),
            wants_evicted: false,
            refusals: 0,
        }
    }

    /// Returns what values are to be packed with.
    pub fn coder(&self) -> Option<Arc<Coder>> {
        self.coders[1].as_ref().or(self.coders[0].as_ref()).cloned()
    }

    /// Returns the coders that are in use.
    pub fn coders(&self) -> impl Iterator<Item = &Arc<Coder>> {
        self.coders.iter().flatten()
    }

    /// Returns whether a value was packed with another coder than values are packed with now.
    pub fn is_stale(&self, packed: &Packed) -> bool {
        let [first, trained] = &packed.coders;
        let is_ours = |coder: &Arc<Coder>| self.coders().any(|ours| Arc::ptr_eq(ours, coder));
        first.as_ref().is_some_and(|coder| self.coders[1].is_some() || !is_ours(coder))
            || trained.as_ref().is_some_and(|coder| !is_ours(coder))
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the bytes of memory taken, but for the pool's pages.
    fn beside_pages(&self) -> usize {
        let pages = self.pool.pages().used() * uzram::page_size();
        // A page may have been given back since.
        self.held().saturating_sub(pages)
    }

    /// Returns the bytes of memory taken, everything counted.
    pub fn held(&self) -> usize {
        size_of::<Self>()
            + self.pool.bytes()
            + self.slots.bytes()
            + self.table.allocation_size()
            + self.key_bytes
            + self.coders().map(|coder| coder.bytes()).sum::<usize>()
            + self.samples.as_ref().map_or(0, Samples::memory)
    }

    fn margin(&self) -> usize {
        (self.limit / MARGIN_SHARE).clamp(MARGIN.0, MARGIN.1)
    }

    /// Returns the figures.
    pub fn figures(&self) -> Figures {
        let dictionary = self.coder().map_or(0, |coder| coder.dictionary_bytes());
        Figures {
            entries: self.len(),
            limit: self.limit,
            held: self.held(),
            dictionary,
            ..self.figures
        }
    }

    /// Returns the first slot of the value with such a key.
    pub fn find(&self, hash: u32, probe: &dyn Probe<K>, verdicts: &Verdicts) -> Found<u32, K> {
        let mut unknown = Vec::new();
        for &first in self.table.iter_hash(spread(hash)) {
            let slot = self.slots.get(first);
            let Some(key) = slot.key.as_ref().filter(|_| slot.hash == hash) else { continue };
            match probe.is_same(key) {
                Some(true) => return Found::Yes(first),
                Some(false) => {}
                None => {
                    let id = self.slots.id(first);
                    if verdicts.same == Some(id) {
                        return Found::Yes(first);
                    }
                    if !verdicts.others.contains(&id) {
                        unknown.push((id, probe.copy(key)));
                    }
                }
            }
        }
        if unknown.is_empty() { Found::No } else { Found::Ask(unknown) }
    }

    /// Counts a value that was asked for.
    pub fn count(&mut self, is_hit: bool) {
        let count = if is_hit { &mut self.figures.hits } else { &mut self.figures.misses };
        *count += 1;
    }

    /// Makes a value the youngest.
    pub fn touch(&mut self, first: u32) {
        self.slots.touch(first);
    }

    /// Returns the first slot of the oldest value.
    pub fn oldest(&self) -> Option<u32> {
        self.slots.oldest()
    }

    /// Returns the key of a value.
    pub fn key(&self, first: u32) -> Option<&K> {
        self.slots.get(first).key.as_ref()
    }

    /// Returns all keys, the oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.by_age().filter_map(|first| self.key(first))
    }

    /// Returns a copy of a value, packed.
    pub fn packed(&self, first: u32) -> Packed {
        let len = self.slots.get(first).len as usize;
        let mut packed =
            Packed { len, pieces: Vec::new(), bytes: Vec::new(), coders: [None, None] };
        let mut piece = if len == 0 { NONE } else { first };
        while piece != NONE {
            let guard = self.pool.read(piece);
            if let Content::Object { bytes, flags } = guard.content() {
                let form = Form::of_flags(flags);
                packed.bytes.extend_from_slice(bytes);
                packed.pieces.push(Piece { form, end: packed.bytes.len() });
                if form != Form::Raw && packed.coders[form as usize - 1].is_none() {
                    packed.coders[form as usize - 1] = self.coders[form as usize - 1].clone();
                }
            }
            piece = self.slots.get(piece).next;
        }
        packed
    }

    /// Removes a value, and returns its key.
    pub fn remove(&mut self, first: u32) -> Option<K> {
        let slot = self.slots.get(first);
        let (hash, key_bytes) = (slot.hash, slot.key_bytes);
        if let Ok(entry) = self.table.find_entry(spread(hash), |&index| index == first) {
            entry.remove();
        }
        self.slots.unlink(first);
        self.key_bytes -= key_bytes as usize;
        self.free(first)
    }

    /// Frees the pieces of a value that is neither in the table nor in the order.
    fn free(&mut self, first: u32) -> Option<K> {
        self.figures.stored -= u64::from(self.slots.get(first).len);
        let (mut piece, mut key) = (first, None);
        while piece != NONE {
            self.free_piece(piece);
            let (of_first, next) = self.slots.give_back(piece);
            key = key.or(of_first);
            piece = next;
        }
        key
    }

    /// Frees the object of a piece, and counts it out.
    fn free_piece(&mut self, piece: u32) {
        let Some(entry) = self.pool.lock_existing(piece) else { return };
        let old = match entry.content() {
            Content::Object { bytes, flags } => Some((bytes.len(), Form::of_flags(flags))),
            Content::Inline(_) => None,
        };
        if let Some((len, form)) = old {
            entry.set_payload(0);
            self.count_piece(len, form, false);
        }
    }

    fn count_piece(&mut self, len: usize, form: Form, is_new: bool) {
        let compressed = &mut self.figures.compressed;
        *compressed = if is_new { *compressed + len as u64 } else { *compressed - len as u64 };
        if form != Form::Raw {
            let pieces = &mut self.pieces_of[form as usize - 1];
            *pieces = if is_new { *pieces + 1 } else { *pieces - 1 };
        }
    }

    /// Evicts the oldest value but `spared`, and returns whether there was one.
    fn evict(&mut self, spared: Option<u32>, out: &mut Departed<K>) -> bool {
        let oldest = self.slots.oldest();
        let first = match oldest {
            Some(first) if Some(first) == spared => self.slots.younger(first),
            first => first,
        };
        let Some(first) = first else { return false };
        let packed = self.wants_evicted.then(|| self.packed(first));
        if let Some(key) = self.remove(first) {
            match packed {
                Some(packed) => out.evicted.push((key, packed)),
                None => out.keys.push(key),
            }
        }
        self.figures.evictions += 1;
        true
    }

    /// Evicts until `bytes` more are within the limit, or `spared` alone is left. Returns whether
    /// they are.
    pub fn make_room(&mut self, bytes: usize, spared: Option<u32>, out: &mut Departed<K>) -> bool {
        loop {
            if self.held() + bytes <= self.limit {
                return true;
            }
            if !self.evict(spared, out) {
                self.pool.trim();
                return self.held() + bytes <= self.limit;
            }
        }
    }

    /// Keeps a value, in place of that in slot `old` if there is one, as the youngest.
    ///
    /// # Errors
    /// It is not kept, and `old` stays, as the youngest. The offer is left where it was; others may
    /// be gone.
    pub fn put(
        &mut self,
        hash: u32,
        old: Option<u32>,
        offer: &mut Option<Offer<K>>,
        out: &mut Departed<K>,
    ) -> Result<(), Refusal> {
        let Some(Offer { packed, key_bytes, .. }) = &*offer else { return Ok(()) };
        let key_bytes = if old.is_some() { 0 } else { *key_bytes };
        if let Some(old) = old {
            self.slots.touch(old);
        }
        self.expect_room(packed, key_bytes as usize)?;
        let mut old = old;
        let first = match self.store(packed, key_bytes, old, out) {
            Err(Refusal::NoRoom) if old.is_some() => {
                return self.put_instead(hash, old.take(), offer, out);
            }
            stored => stored?,
        };
        let Some(offer) = offer.take() else { return Ok(()) };
        match old {
            None => self.enter(first, hash, offer.key, key_bytes),
            Some(old) => {
                self.take_place(first, old);
                out.keys.push(offer.key);
            }
        }
        self.make_room(0, Some(first), out);
        Ok(())
    }

    /// Fails if a value would find no room in an empty cache.
    fn expect_room(&self, packed: &Packed, key_bytes: usize) -> Result<(), Refusal> {
        let of_entries = self.slots.bytes() + self.table.allocation_size();
        let fixed = self.beside_pages() - of_entries - self.key_bytes + self.margin();
        let slots = packed.pieces.len().max(1) * size_of::<super::slots::Slot<K>>();
        let bytes = packed.bytes.len();
        let needed = bytes + bytes / WASTE_SHARE + slots + key_bytes;
        if packed.len >= NONE as usize || fixed + needed > self.limit {
            return Err(Refusal::NoRoom);
        }
        Ok(())
    }

    /// Stores a value where there is no room for it and the one in its place, with all others gone.
    fn put_instead(
        &mut self,
        hash: u32,
        old: Option<u32>,
        offer: &mut Option<Offer<K>>,
        out: &mut Departed<K>,
    ) -> Result<(), Refusal> {
        let Some(old) = old else { return Err(Refusal::NoRoom) };
        let before = self.packed(old);
        let key_bytes = self.slots.get(old).key_bytes;
        let Some(key) = self.remove(old) else { return Err(Refusal::NoRoom) };
        self.pool.trim();
        let Some(Offer { packed, .. }) = &*offer else { return Ok(()) };
        let (result, first) = match self.store(packed, key_bytes, None, out) {
            Ok(first) => {
                out.keys.extend(offer.take().map(|offer| offer.key));
                (Ok(()), Ok(first))
            }
            Err(refusal) => (Err(refusal), self.store(&before, key_bytes, None, out)),
        };
        match first {
            Ok(first) => self.enter(first, hash, key, key_bytes),
            // It was there with less room, so this is the system's refusal.
            Err(_) => out.keys.push(key),
        }
        result
    }

    /// Gives a stored value its key, and its places in table and order.
    fn enter(&mut self, first: u32, hash: u32, key: K, key_bytes: u32) {
        let slot = self.slots.get_mut(first);
        (slot.key, slot.hash, slot.key_bytes) = (Some(key), hash, key_bytes);
        self.key_bytes += key_bytes as usize;
        let slots = &self.slots;
        self.table.insert_unique(spread(hash), first, |&index| spread(slots.get(index).hash));
        self.slots.push_youngest(first);
    }

    /// Gives a stored value the key and the places of another, which is freed.
    fn take_place(&mut self, first: u32, old: u32) {
        let slot = self.slots.get_mut(old);
        let (key, hash, key_bytes) = (slot.key.take(), slot.hash, slot.key_bytes);
        let slot = self.slots.get_mut(first);
        (slot.key, slot.hash, slot.key_bytes) = (key, hash, key_bytes);
        if let Some(index) = self.table.find_mut(spread(hash), |&index| index == old) {
            *index = first;
        }
        self.slots.unlink(old);
        self.slots.push_youngest(first);
        self.free(old);
    }

    /// Stores the pieces of a value, and returns its first slot, which has no key yet.
    fn store(
        &mut self,
        packed: &Packed,
        key_bytes: u32,
        spared: Option<u32>,
        out: &mut Departed<K>,
    ) -> Result<u32, Refusal> {
        let count = packed.pieces.len().max(1);
        self.make_room_for_slots(count, spared, out);
        let mut last = NONE;
        let mut first = NONE;
        let mut start = 0;
        for nth in 0..count {
            let used_as = if nth == 0 { Use::First } else { Use::More };
            let Some(slot) = self.slots.take(used_as) else {
                self.give_up(first);
                return Err(Refusal::NoRoom);
            };
            if nth == 0 {
                first = slot;
            } else {
                self.slots.get_mut(last).next = slot;
            }
            last = slot;
            let Some(&piece) = packed.pieces.get(nth) else { continue };
            let bytes = &packed.bytes[start..piece.end];
            start = piece.end;
            let stored = self.store_piece(slot, bytes, piece.form, key_bytes, spared, out);
            if let Err(refusal) = stored {
                self.give_up(first);
                return Err(refusal);
            }
        }
        self.slots.get_mut(first).len = packed.len as u32;
        self.figures.stored += packed.len as u64;
        Ok(first)
    }

    /// Frees the pieces of a value that could not be stored in whole.
    fn give_up(&mut self, first: u32) {
        if first != NONE {
            self.slots.get_mut(first).len = 0;
            self.free(first);
        }
    }

    /// Stores bytes for a slot, and evicts as long as there is no room for them.
    fn store_piece(
        &mut self,
        slot: u32,
        bytes: &[u8],
        form: Form,
        key_bytes: u32,
        spared: Option<u32>,
        out: &mut Departed<K>,
    ) -> Result<(), Refusal> {
        loop {
            let beside = self.beside_pages() + self.margin() + key_bytes as usize;
            let pages = self.limit.saturating_sub(beside) / uzram::page_size();
            self.pool.pages().set_limit(Some(pages));
            let stored = self.pool.lock(slot)?.store(bytes, form as u8);
            match stored {
                Ok(_) => {
                    self.count_piece(bytes.len(), form, true);
                    return Ok(());
                }
                Err(error) if error.is_limit() => {
                    self.refusals = self.refusals.wrapping_add(1);
                    let compacts = self.refusals.is_multiple_of(REFUSALS) && self.compact();
                    if !compacts && !self.evict(spared, out) && self.pool.compact() == 0 {
                        return Err(Refusal::NoRoom);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Has the pool move objects together if that frees much, and returns whether it has.
    fn compact(&self) -> bool {
        let bytes = self.pool.pages().used() * uzram::page_size();
        self.pool.freeable() > bytes / FREEABLE_SHARE && self.pool.shrink(SHRINK_BYTES) > 0
    }

    /// Makes room for slots, and for the table to grow, or for a place in it.
    fn make_room_for_slots(&mut self, count: usize, spared: Option<u32>, out: &mut Departed<K>) {
        loop {
            let grows = spared.is_none() && self.table.len() == self.table.capacity();
            // The table doubles, with the one before still there.
            let of_table = if grows { 2 * self.table.allocation_size() + 1024 } else { 0 };
            let needed = of_table + self.slots.bytes_to_take(count);
            if self.held() + needed <= self.limit || needed == 0 || !self.evict(spared, out) {
                break;
            }
        }
        if spared.is_some() {
            return;
        }
        let slots = &self.slots;
        self.table.reserve(1, |&index| spread(slots.get(index).hash));
    }

    /// Adds a value that is kept now to the samples, and returns them if there are enough. They
    /// stay counted until then; who trains with them holds them a moment longer.
    pub fn sample(&mut self, value: &[u8], out: &mut Departed<K>) -> Option<Samples> {
        let is_full = self.samples.as_mut()?.add(value);
        self.make_room(0, None, out);
        if is_full { self.samples.take() } else { None }
    }

    /// Takes a coder that was trained, for all values from now on, if there is room for it.
    pub fn adopt(&mut self, coder: Arc<Coder>, out: &mut Departed<K>) -> bool {
        let adopts = self.coders[1].is_none() && self.make_room(coder.bytes(), None, out);
        if adopts {
            self.coders[1] = Some(coder);
            self.drop_unused();
        }
        adopts
    }

    /// Drops the first coder if it is of no use any more.
    fn drop_unused(&mut self) {
        if self.coders[1].is_some() && self.pieces_of[0] == 0 {
            self.coders[0] = None;
        }
    }

    /// Packs the values whose first slots are from `from` on, `count` slots of them, with the
    /// trained coder, and returns where to go on, if there are more.
    ///
    /// # Errors
    /// There is no memory for a stream.
    pub fn repack(&mut self, from: u32, count: u32) -> Result<Option<u32>, Error> {
        let end = self.slots.count().min(from.saturating_add(count));
        let [Some(first), Some(trained)] = self.coders.clone() else { return Ok(None) };
        let is_first = |index: &u32| self.slots.get(*index).used_as == Use::First;
        let firsts: Vec<u32> = (from..end).filter(is_first).collect();
        for index in firsts {
            let (mut piece, mut left) = (index, self.slots.get(index).len as usize);
            while left > 0 {
                let len = left.min(trained.block());
                self.repack_piece(piece, len, &first, &trained)?;
                left -= len;
                piece = self.slots.get(piece).next;
            }
        }
        self.drop_unused();
        Ok((end < self.slots.count()).then_some(end))
    }

    fn repack_piece(
        &mut self,
        piece: u32,
        len: usize,
        first: &Coder,
        trained: &Coder,
    ) -> Result<(), Error> {
        let Some(entry) = self.pool.lock_existing(piece) else { return Ok(()) };
        let Content::Object { bytes, flags } = entry.content() else { return Ok(()) };
        let (old, form) = (bytes.len(), Form::of_flags(flags));
        let mut block = vec![0; len];
        match form {
            Form::Raw => block.copy_from_slice(bytes),
            Form::First => first.unpack_block(bytes, &mut block)?,
            Form::Trained => return Ok(()),
        }
        let mut bytes = Vec::new();
        let new = trained.pack_block(&block, &mut bytes)?;
        // What came out longer, or finds no room, stays as it is, and the first coder with it.
        if new == Form::Raw || bytes.len() > old || entry.store(&bytes, new as u8).is_err() {
            return Ok(());
        }
        self.count_piece(old, form, false);
        self.count_piece(bytes.len(), new, true);
        Ok(())
    }

    /// Removes all values.
    pub fn clear(&mut self, out: &mut Departed<K>) {
        while let Some(first) = self.slots.oldest() {
            out.keys.extend(self.remove(first));
        }
        self.table = HashTable::new();
        self.slots.renew();
        self.pool.trim();
    }

    /// Asserts that all parts agree.
    pub fn check(&self) {
        self.slots.check();
        self.pool.check();
        let (mut stored, mut compressed, mut key_bytes, mut values) = (0, 0, 0, 0);
        let mut pieces_of = [0; 2];
        for first in self.slots.by_age() {
            let slot = self.slots.get(first);
            let found = self.table.find(spread(slot.hash), |&index| index == first);
            assert_eq!(found, Some(&first), "the table lacks a value");
            let packed = self.packed(first);
            assert_eq!(packed.value().expect("a value is whole").len(), slot.len as usize);
            stored += u64::from(slot.len);
            compressed += packed.bytes.len() as u64;
            key_bytes += slot.key_bytes as usize;
            values += 1;
            for piece in packed.pieces.iter().filter(|piece| piece.form != Form::Raw) {
                pieces_of[piece.form as usize - 1] += 1;
            }
        }
        assert_eq!(values, self.table.len());
        let figures = &self.figures;
        assert_eq!((stored, compressed), (figures.stored, figures.compressed));
        assert_eq!((key_bytes, pieces_of), (self.key_bytes, self.pieces_of));
        assert!(self.coders.iter().zip(pieces_of).all(|(coder, n)| coder.is_some() || n == 0));
        assert!(self.held() <= self.limit, "{} of {} bytes", self.held(), self.limit);
    }
}
