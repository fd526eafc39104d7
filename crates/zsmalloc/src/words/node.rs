//! Nodes: the memory of words, in the pool's arena; and what a leaf's entry in the directory names.
//!
//! ```text
//!   link    | address of the node, a multiple of 16 ... | kind: 3 bits | converting |     0: no word of the leaf
//!   packed  | next 8 | count 8 | words: 8 each | beside: E each | keys: 2 each |     room for 8 to 96 words
//!   dense   | words: 8 each | beside: E each | words: ...    all 512, in their order, a line of memory at a time
//! ```
//! `next` is null or names a dense node, which a packed one is given when it is full.
//!
//! # Safety
//! - W1: a link in the directory or in `next` names a node of its table that was whole before the link was
//!   stored: all words and what is beside them, up to the count; keys below the count never change.
//! - W2: a node is given back only when no link names it any more, and then either no link ever did
//!   (`discard`), or all who were inside when the last link went have left (`free_retired`; who comes later
//!   finds no link). In a child no one was inside (`free_lost`).
//! - W3: a link to a node goes only when the node's words are frozen, all that can be found. A locked word
//!   is not frozen, and none is locked again before its leaf was given up, which keeps the link (T3 of
//!   [`super`] sees to it that a late thaw is not one too many). So a node stays while a word of it is locked.
//! - W4: links and counts of published nodes are changed by the holder of the table's lock only, but for a
//!   reader's `give_up`. Who has `&mut Retired` of the table holds that lock.
#![allow(unsafe_code)]

use super::held::{Held, Shared};
use super::kind::{ALIGN, KIND_SHIFT, Kind, LEAF};
use super::retired::Retired;
use super::{Beside, Making, Words};
use crate::Error;
use crate::readers::{Inside, Readers};
use crate::sync::{AtomicLink, AtomicU64, Mutex, Ordering};
use crate::word::{Busy, Value, Word};
use page::Supply;
use slab::packed::{Arena, CacheStat, RawCache};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

const CONVERTING: usize = 1;

/// The beginning of a packed node.
#[repr(C)]
pub(super) struct Head {
    next: AtomicLink,
    count: AtomicU64,
}

/// A node by address and kind: the link without its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    address: NonNull<u8>,
    kind: Kind,
}

// SAFETY: a link is a number; what is behind it is shared as W1 to W4 say.
unsafe impl Send for Link {}

impl Link {
    pub(super) fn from_raw(raw: *mut u8) -> Option<Self> {
        let kind = Kind((raw.addr() >> KIND_SHIFT) as u8 & (ALIGN as u8 / 2 - 1));
        let address = NonNull::new(raw.map_addr(|address| address & !(ALIGN - 1)))?;
        Some(Link { address, kind })
    }

    pub(super) fn to_raw(self) -> *mut u8 {
        self.address.as_ptr().map_addr(|address| address | (self.kind.0 as usize) << KIND_SHIFT)
    }

    fn head(&self) -> NonNull<Head> {
        debug_assert!(!self.kind.is_dense());
        self.address.cast()
    }

    /// Writes word `nth` of the node, and its key.
    ///
    /// # Safety
    /// The node has room for it, and no one looks at that place.
    unsafe fn write<E>(self, nth: usize, key: u16, value: Value, beside: E) {
        assert!(nth < self.kind.capacity());
        // SAFETY: `bytes` of the kind cover this place in all its parts, aligned as they are; the caller
        // says that it is its own.
        unsafe {
            let start = self.address;
            let (word_at, beside_at) = self.kind.places::<E>(nth);
            start.add(word_at).cast::<Word>().write(Word::new(value));
            start.add(beside_at).cast::<E>().write(beside);
            if !self.kind.is_dense() {
                start.add(self.kind.keys_at::<E>()).cast::<u16>().add(nth).write(key);
            }
        }
    }
}

/// A word where it lies, and what lies beside it.
#[derive(Debug)]
pub(super) struct Spot<'s, E> {
    pub(super) word: &'s Word,
    pub(super) beside: &'s E,
}

impl<E: Beside> Spot<'_, E> {
    /// The same for as long as the word is locked.
    ///
    /// # Safety
    /// The word is locked by the caller, who uses neither reference after unlocking it.
    unsafe fn locked<'t>(&self, _table: &'t Words<E>) -> Spot<'t, E> {
        // SAFETY: the node stays while its word is locked (W3), in memory that stays as long as the table.
        unsafe {
            Spot {
                word: NonNull::from(self.word).as_ref(),
                beside: NonNull::from(self.beside).as_ref(),
            }
        }
    }

    /// Locks the word for reading.
    pub(super) fn lock_shared<'t>(&self, table: &'t Words<E>) -> Result<Shared<'t, E>, Busy> {
        let value = self.word.try_lock_shared()?;
        // SAFETY: it was locked just now; `Shared` lends the references with itself and unlocks at its end.
        Ok(Shared::new(unsafe { self.locked(table) }, value))
    }

    /// Locks the word for a change; its readers are still to be waited for.
    pub(super) fn lock_exclusive<'t>(&self, table: &'t Words<E>) -> Result<Held<'t, E>, Busy> {
        self.word.try_lock_exclusive()?;
        // SAFETY: it was locked just now; `Held` lends the references with itself and unlocks at its end.
        Ok(Held::new(table, unsafe { self.locked(table) }))
    }

    /// Locks the word for a change if it is empty and no one has it locked.
    pub(super) fn claim<'t>(&self, table: &'t Words<E>) -> Option<Held<'t, E>> {
        // SAFETY: as above.
        self.word.try_claim().then(|| Held::new(table, unsafe { self.locked(table) }))
    }
}

/// A node that links name, for someone inside.
#[derive(Debug)]
pub(super) struct Node<'s, E> {
    link: Link,
    inside: PhantomData<&'s E>,
}

impl<E> Clone for Node<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Node<'_, E> {}

impl<'s, E> Node<'s, E> {
    fn head(self) -> Option<&'s Head> {
        // SAFETY: a packed node begins with its head (W1), and stays while its user is inside (W2).
        (!self.link.kind.is_dense()).then(|| unsafe { self.link.head().as_ref() })
    }

    /// The dense node behind this one.
    fn next(self) -> Option<Node<'s, E>> {
        let link = Link::from_raw(self.head()?.next.load(Ordering::Acquire))?;
        Some(Node { link, inside: PhantomData })
    }

    /// The keys of a packed node.
    fn keys(self) -> &'s [u16] {
        let Some(head) = self.head() else { return &[] };
        let count = head.count.load(Ordering::Acquire) as usize;
        // SAFETY: keys below the count were written before it was, and do not change (W1).
        unsafe {
            let keys = self.link.address.add(self.link.kind.keys_at::<E>());
            std::slice::from_raw_parts(keys.cast().as_ptr(), count)
        }
    }

    /// Word `nth` of the node: below the count, if it is packed.
    #[inline]
    fn spot(self, nth: usize) -> Spot<'s, E> {
        let (kind, start) = (self.link.kind, self.link.address);
        assert!(nth < kind.capacity());
        let (word_at, beside_at) = kind.places::<E>(nth);
        // SAFETY: it was written before it could be found (W1), and stays (W2).
        unsafe {
            Spot {
                word: start.add(word_at).cast().as_ref(),
                beside: start.add(beside_at).cast().as_ref(),
            }
        }
    }

    /// The word of `key`, in this node or the next.
    #[inline]
    pub(super) fn find(self, key: u16) -> Option<Spot<'s, E>> {
        if self.link.kind.is_dense() {
            Some(self.spot(key as usize))
        } else {
            self.find_packed(key)
        }
    }

    fn find_packed(self, key: u16) -> Option<Spot<'s, E>> {
        // Before the keys: who finds a next node is to have seen all keys of this one.
        let next = self.next();
        match position(self.keys(), key) {
            Some(nth) => Some(self.spot(nth)),
            None => Some(next?.spot(key as usize)),
        }
    }

    /// All words that can be found, with their keys.
    pub(super) fn words(self) -> impl Iterator<Item = (u16, Spot<'s, E>)> {
        let dense = if self.link.kind.is_dense() { Some(self) } else { self.next() };
        let keys = self.keys();
        let mut packed = [false; LEAF];
        keys.iter().for_each(|&key| packed[key as usize] = true);
        let rest = (0..LEAF as u16).filter(move |&key| !packed[key as usize]);
        let rest = rest.map_while(move |key| Some((key, dense?.spot(key as usize))));
        keys.iter().enumerate().map(move |(nth, &key)| (key, self.spot(nth))).chain(rest)
    }

    /// Its kind, and that of the node behind it.
    pub(super) fn kinds(self) -> impl Iterator<Item = Kind> {
        std::iter::once(self.link.kind).chain(self.next().map(|next| next.link.kind))
    }

    /// Whether it has a dense part.
    pub(super) fn has_dense(self) -> bool {
        self.kinds().any(Kind::is_dense)
    }

    /// Whether words lie in two nodes.
    pub(super) fn is_chain(self) -> bool {
        self.next().is_some()
    }

    /// Asserts that keys are keys, and once each, and that a node with another behind it is full.
    pub(super) fn check(self) {
        let (keys, link) = (self.keys(), self.link);
        assert!(!self.is_chain() || keys.len() == link.kind.capacity(), "{link:?}");
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        assert!(sorted.is_sorted_by(|a, b| a < b), "keys of {link:?}");
        assert!(sorted.last().is_none_or(|&key| (key as usize) < LEAF), "keys of {link:?}");
    }

    /// Adds an empty word to a packed node that has not got that key; false where it is full.
    pub(super) fn push(self, _alone: &mut Retired, key: u16, beside: E) -> bool {
        let Some(head) = self.head() else { return false };
        let count = head.count.load(Ordering::Relaxed);
        if count as usize == self.link.kind.capacity() {
            return false;
        }
        // SAFETY: there is room, no one looks beyond the count, and no one else adds to it (W4).
        unsafe { self.link.write(count as usize, key, Value::EMPTY, beside) }
        head.count.store(count + 1, Ordering::Release);
        true
    }

    /// Puts a dense node behind a packed one that is full and has none.
    pub(super) fn append(self, _alone: &mut Retired, dense: Fresh<E>) {
        debug_assert!(dense.link.kind.is_dense());
        if let Some(head) = self.head() {
            head.next.store(dense.link.to_raw(), Ordering::Release);
        }
    }
}

/// The place of `key`. Eight at a time, which is one comparison.
fn position(keys: &[u16], key: u16) -> Option<usize> {
    let has = |chunk: &&[u16]| chunk.iter().fold(false, |found, &other| found | (other == key));
    let nth = keys.chunks(8).position(|chunk| has(&chunk))?;
    let at = keys[nth * 8..].iter().position(|&other| other == key)?;
    Some(nth * 8 + at)
}

/// A node that no link has named yet.
#[derive(Debug)]
pub(super) struct Fresh<E> {
    link: Link,
    count: usize,
    beside: PhantomData<E>,
}

impl<E> Fresh<E> {
    pub(super) fn kind(&self) -> Kind {
        self.link.kind
    }

    /// Gives it a word; false where it has no room.
    pub(super) fn put(&mut self, key: u16, value: Value, beside: E) -> bool {
        let dense = self.link.kind.is_dense();
        let nth = if dense { key as usize } else { self.count };
        if nth >= self.link.kind.capacity() {
            return false;
        }
        // SAFETY: there is room, and the node is this caller's alone.
        unsafe { self.link.write(nth, key, value, beside) }
        if !dense {
            self.count += 1;
            // SAFETY: `make` wrote the head.
            unsafe { self.link.head().as_ref() }.count.store(self.count as u64, Ordering::Relaxed);
        }
        true
    }
}

/// What the directory keeps of a leaf's nodes: a link.
#[derive(Debug)]
pub(super) struct Chain<E> {
    link: AtomicLink,
    nodes: PhantomData<fn() -> E>,
}

impl<E> Chain<E> {
    pub(super) fn new() -> Self {
        Chain { link: AtomicLink::new(null_mut()), nodes: PhantomData }
    }

    /// Whether the leaf has a node.
    pub(super) fn is_made(&self) -> bool {
        !self.link.load(Ordering::Acquire).is_null()
    }

    /// The leaf's first node, for someone inside the readers of its table.
    pub(super) fn load<'s>(&'s self, _inside: &'s Inside<'_>) -> Option<Node<'s, E>> {
        let link = Link::from_raw(self.link.load(Ordering::Acquire))?;
        Some(Node { link, inside: PhantomData })
    }

    /// Gives a leaf without nodes its first.
    pub(super) fn publish(&self, _alone: &mut Retired, node: Fresh<E>) {
        self.link.store(node.link.to_raw(), Ordering::Release);
    }

    /// Says that the leaf is being converted, which was not.
    pub(super) fn begin(&self, _alone: &mut Retired, node: Node<'_, E>) {
        let converting = node.link.to_raw().map_addr(|address| address | CONVERTING);
        self.link.store(converting, Ordering::Release);
    }

    /// Ends the conversion of a leaf, which keeps its nodes; false where they have gone already.
    pub(super) fn give_up(&self, node: Node<'_, E>) -> bool {
        let raw = node.link.to_raw();
        let converting = raw.map_addr(|address| address | CONVERTING);
        match self.link.compare_exchange(converting, raw, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now == raw,
        }
    }

    /// Ends the conversion of a leaf whose words are all frozen: it has `fresh` from now on, unless a reader
    /// gave the conversion up; then that comes back.
    pub(super) fn commit(
        &self,
        retired: &mut Retired,
        node: Node<'_, E>,
        fresh: Option<Fresh<E>>,
    ) -> Result<(), Option<Fresh<E>>> {
        let converting = node.link.to_raw().map_addr(|address| address | CONVERTING);
        let to = fresh.as_ref().map_or(null_mut(), |fresh| fresh.link.to_raw());
        match self.link.compare_exchange(converting, to, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                retired.add(node.link);
                Ok(())
            }
            Err(_) => Err(fresh),
        }
    }
}

/// The memory of a table's nodes.
#[derive(Debug)]
pub(super) struct Nodes<E> {
    /// By kind.
    caches: Box<[RawCache]>,
    arena: Arc<Arena>,
    nodes: PhantomData<fn() -> E>,
}

impl<E: Beside> Nodes<E> {
    pub(super) fn new(arena: &Arc<Arena>) -> Result<Self, Error> {
        let caches = Kind::all().map(|kind| Ok(RawCache::new(arena, kind.bytes::<E>(), ALIGN)?));
        let caches = caches.collect::<Result<_, Error>>()?;
        Ok(Nodes { caches, arena: arena.clone(), nodes: PhantomData })
    }

    /// Who may refuse the table memory.
    pub(super) fn supply(&self) -> Option<&dyn Supply> {
        self.arena.supply()
    }

    fn cache(&self, kind: Kind) -> &RawCache {
        &self.caches[kind.0 as usize]
    }

    /// Bytes of a node.
    pub(super) fn bytes(&self, kind: Kind) -> usize {
        self.cache(kind).geometry().stride
    }

    /// A node for `leaf`. A packed one has no words, a dense one all, and they are empty.
    pub(super) fn make(&self, kind: Kind, leaf: &E::Leaf) -> Result<Fresh<E>, Error> {
        let address = self.cache(kind).alloc()?;
        Ok(Self::fresh(Link { address, kind }, leaf))
    }

    /// A node of the kind of `node`, in a lower place: as these move down, pages behind them become empty.
    pub(super) fn make_below(&self, node: Node<'_, E>, leaf: &E::Leaf) -> Option<Fresh<E>> {
        let Link { address, kind } = node.link;
        let address = self.cache(kind).alloc_before(address)?;
        Some(Self::fresh(Link { address, kind }, leaf))
    }

    fn fresh(link: Link, leaf: &E::Leaf) -> Fresh<E> {
        let mut fresh = Fresh { link, count: 0, beside: PhantomData };
        if link.kind.is_dense() {
            (0..LEAF as u16).for_each(|key| {
                fresh.put(key, Value::EMPTY, E::fresh(leaf));
            });
        } else {
            let head = Head { next: AtomicLink::new(null_mut()), count: AtomicU64::new(0) };
            // SAFETY: the cache gave memory of this kind's size and alignment that no one else has.
            unsafe { link.head().write(head) }
        }
        fresh
    }

    fn free(&self, link: Link) {
        // SAFETY: both callers say why no one uses the node again.
        let freed = unsafe { self.cache(link.kind).free(link.address) };
        debug_assert_eq!(freed, Ok(()), "a node is freed once, to its own cache");
    }

    /// Gives back a node that was not wanted after all.
    pub(super) fn discard(&self, fresh: Fresh<E>) {
        // No link has named it (W2).
        self.free(fresh.link);
    }

    /// Waits for the readers inside, and gives back what was retired before.
    pub(super) fn free_retired(&self, readers: &Readers, making: &Mutex<Making>) {
        let until = making.lock().retired.gone();
        readers.wait();
        // All who could know of these have left (W2). One at a time: others wait to make words.
        while self.free_first(&mut making.lock().retired, until) {}
    }

    /// Gives back what lost threads had retired, in a child whose readers are forgotten (W2).
    pub(super) fn free_lost(&self, retired: &mut Retired) {
        while self.free_first(retired, u64::MAX) {}
    }

    /// Gives back the first node among those that went before `until` had, and the one behind it.
    fn free_first(&self, retired: &mut Retired, until: u64) -> bool {
        let Some(link) = retired.take(until) else { return false };
        let next = Node::<E> { link, inside: PhantomData }.next();
        next.into_iter().for_each(|next| self.free(next.link));
        self.free(link);
        true
    }

    /// Gives back the memory kept ready for the next nodes.
    pub(super) fn shrink(&self) {
        self.caches.iter().for_each(|cache| {
            cache.shrink();
        });
    }

    /// Bytes of the pages the nodes lie in.
    #[cfg(all(test, not(loom)))]
    pub(super) fn page_bytes(&self) -> usize {
        self.caches.iter().map(|cache| cache.stat().pages).sum::<usize>() * page::page_size()
    }

    pub(super) fn hold(&self) {
        self.caches.iter().for_each(RawCache::hold);
    }

    pub(super) fn let_go(&self) {
        self.caches.iter().for_each(RawCache::let_go);
    }

    pub(super) fn mend(&self) {
        self.caches.iter().for_each(RawCache::mend);
    }

    /// Asserts the state of the caches, and that they hold the nodes of `kinds` and no others.
    pub(super) fn check(&self, kinds: impl Iterator<Item = Kind>) {
        let mut counts = vec![0; self.caches.len()];
        kinds.for_each(|kind| counts[kind.0 as usize] += 1);
        for (cache, count) in self.caches.iter().zip(counts) {
            cache.check();
            let CacheStat { active_objects, .. } = cache.stat();
            assert_eq!(active_objects, count, "nodes of {} bytes", cache.geometry().stride);
        }
    }
}
