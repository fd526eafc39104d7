//! The pool's core: objects stored for owners, whose words are cell and lock of each object.
//!
//! Lock order: owner's word, class, slab caches, space.

use crate::exclusive::{Exclusive, Staged};
use crate::locked::Locked;
use crate::memory::Pinned;
use crate::parts::Parts;
use crate::stat::{ClassStat, Classes};
use crate::sync::Alone;
use crate::sync::Ordering::Relaxed;
use crate::word::{Place, Value};
use crate::words::{Held, Shared};
use crate::{ClassTable, Config, Error};
use page::{Budget, page_size};
use slab::packed::Arena;
use std::fmt;
use std::sync::Arc;

/// Who has words. Sealed: an object's safety rests on its word, so only this crate's owners exist.
pub trait Owner: sealed::Owner {}

pub(crate) mod sealed {
    use crate::Error;
    use crate::words::{Beside, Words};

    pub trait Owner: Sync {
        /// What lies beside each word.
        type Beside: Beside;

        /// The words.
        #[allow(private_interfaces)]
        fn words(&self) -> &Words<Self::Beside>;

        /// Whether the owner may have a word `index`.
        fn check_index(&self, index: u32) -> Result<(), Error>;

        /// Holds the owner still over a fork: its locks are taken until `unlock_after_fork`.
        fn lock_for_fork(&self);

        /// Releases what `lock_for_fork` took.
        fn unlock_after_fork(&self);

        /// Unlocks all words and mends what else lost threads left, in a child.
        fn mend(&self);

        /// Bytes of memory the owner uses outside the pool's arena.
        fn bytes(&self) -> usize;

        /// Asserts the owner's own state.
        fn check(&self);
    }
}

/// A pool whose objects belong to the words of an [`Owner`].
pub struct Core<O> {
    parts: Parts,
    owner: O,
}

impl<O> fmt::Debug for Core<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("space", &self.parts.memory.space).finish_non_exhaustive()
    }
}

/// What a word holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// 59 bits of the owner's, 0 in a new word; no object.
    Inline(u64),
    /// An object, and the owner's four bits beside it.
    Object {
        /// The object.
        bytes: &'a [u8],
        /// The owner's bits, 0 to 15.
        mark: u8,
    },
}

/// What a word held when it was looked at, or before it was given something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// The owner's bits; no object.
    Inline(u64),
    /// An object, freed meanwhile.
    Object {
        /// Its bytes.
        len: usize,
        /// The owner's bits.
        mark: u8,
    },
}

impl From<Value> for Old {
    fn from(value: Value) -> Self {
        match value.decode() {
            Ok(Place { len, mark, .. }) => Old::Object { len, mark },
            Err(payload) => Old::Inline(payload),
        }
    }
}

impl<O: Owner> Core<O> {
    /// A pool without pages. `owner` makes its words in the arena that it is given.
    pub(crate) fn new(
        config: Config,
        owner: impl FnOnce(&Arc<Arena>) -> Result<O, Error>,
    ) -> Result<Self, Error> {
        let supply = config.pages.supply.clone();
        let arena = Arena::new(page::Config { supply, ..page::Config::default() })?;
        let owner = owner(&arena)?;
        Ok(Core { parts: Parts::new(config, arena)?, owner })
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    pub(crate) fn owner(&self) -> &O {
        &self.owner
    }

    /// Locks word `index` for reading. What it holds stays and does not change until the pin is dropped. A word
    /// has six pins at most at a time: whoever wants another waits. One that holds nothing may not exist, and so
    /// not be locked: it may be given something meanwhile.
    ///
    /// # Panics
    /// In a child that is [left behind](Self::is_left_behind).
    pub fn pin(&self, index: u32) -> Pin<'_, O::Beside> {
        self.expect_whole();
        self.pinned(index, |_| true)
    }

    /// As [`pin`](Self::pin), but a word that holds nothing where `admits` says no of what lies beside it:
    /// asked before the word is waited for, and again with the word locked.
    pub(crate) fn pin_if(
        &self,
        index: u32,
        admits: impl Fn(&O::Beside) -> bool,
    ) -> Result<Pin<'_, O::Beside>, Error> {
        self.whole()?;
        Ok(self.pinned(index, admits))
    }

    fn pinned(&self, index: u32, admits: impl Fn(&O::Beside) -> bool) -> Pin<'_, O::Beside> {
        let word = self.owner.words().lock_shared(index, admits);
        let value = word.as_ref().map_or(Value::EMPTY, Shared::value);
        let memory = &self.parts.memory;
        let held = value.decode().map(|place| (memory.pinned(place.offset, place.len), place.mark));
        Pin { held, word }
    }

    /// Has the processor fetch what word `index` holds, which is to be overwritten soon, while something else is done.
    pub fn prefetch(&self, index: u32) {
        if self.whole().is_err() {
            return;
        }
        let value = self.owner.words().with(index, |word, _| word.peek());
        if let Some(Ok(place)) = value.map(Value::decode) {
            self.parts.prefetch(place.offset, place.len);
        }
    }

    /// Locks word `index` for a change.
    ///
    /// # Errors
    /// There is no such word, no memory for it, or [`Error::LeftBehind`].
    pub fn lock(&self, index: u32) -> Result<Exclusive<'_, O::Beside>, Error> {
        self.whole()?;
        self.owner.check_index(index)?;
        Ok(self.exclusive(index, self.owner.words().lock_or_make(index)?))
    }

    /// As [`lock`](Self::lock), but `None` for a word that is not there and so holds nothing.
    ///
    /// # Panics
    /// In a child that is [left behind](Self::is_left_behind).
    pub fn lock_existing(&self, index: u32) -> Option<Exclusive<'_, O::Beside>> {
        self.expect_whole();
        Some(self.exclusive(index, self.owner.words().lock_exclusive(index, |_| true)?))
    }

    /// As [`lock_existing`](Self::lock_existing), with `admits` as in [`pin_if`](Self::pin_if).
    pub(crate) fn lock_if(
        &self,
        index: u32,
        admits: impl Fn(&O::Beside) -> bool,
    ) -> Result<Option<Exclusive<'_, O::Beside>>, Error> {
        self.whole()?;
        let word = self.owner.words().lock_exclusive(index, admits);
        Ok(word.map(|word| self.exclusive(index, word)))
    }

    pub(crate) fn exclusive<'p>(
        &'p self,
        index: u32,
        word: Held<'p, O::Beside>,
    ) -> Exclusive<'p, O::Beside> {
        Exclusive::new(&self.parts, index, word)
    }

    /// Gives back the memory of words that hold nothing any more, if enough do; bytes. `go_on` is asked now and
    /// then. Does nothing while another thread does it.
    pub fn tidy(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        match self.whole() {
            Ok(()) => self.owner.words().tidy(go_on),
            Err(_) => 0,
        }
    }

    /// Reads that had to wait since a word was being changed.
    pub fn read_waits(&self) -> u64 {
        self.owner.words().read_waits()
    }

    /// Stores `bytes` for word `index`, which does not name them yet: see [`Exclusive::replace`].
    ///
    /// # Errors
    /// There is no memory or no class for them, or [`Error::LeftBehind`].
    pub fn stage(&self, index: u32, bytes: &[u8]) -> Result<Staged<'_>, Error> {
        self.whole()?;
        Staged::new(&self.parts, index, bytes)
    }

    /// The count of the pool's pages (`mem_used`) and its limit.
    pub fn pages(&self) -> &Budget {
        self.mended();
        self.parts.memory.space.budget()
    }

    /// All memory of the pool in bytes: pages, their maps and descriptors, bodies, classes and words.
    pub fn bytes(&self) -> usize {
        let memory = &self.parts.memory;
        let pages = self.pages().used() * page_size() + memory.space.metadata_bytes();
        pages + memory.arena.bytes() + self.parts.bytes() + self.owner.bytes()
    }

    /// The size classes, calculated once more.
    pub fn table(&self) -> ClassTable {
        self.parts.table()
    }

    /// The largest object there is.
    pub fn largest(&self) -> usize {
        self.parts.largest()
    }

    /// Gives back the pages that are kept ready for the next objects; how many.
    pub fn trim(&self) -> usize {
        if self.whole().is_err() {
            return 0;
        }
        let alone = Alone::wait(&self.parts.tending);
        self.parts.trim_all(&alone)
    }

    /// Statistics per class.
    pub fn classes(&self) -> Classes {
        self.mended();
        let table = self.parts.table();
        let shapes = table.classes().iter().zip(&self.parts.classes);
        Classes::new(
            shapes.map(|(&shape, class)| ClassStat::new(shape, &Locked::new(&self.parts, class))),
        )
    }

    /// Asserts the state of every class, zspage and word. No other caller may use the pool meanwhile;
    /// compaction is waited for, and kept away. In a child that is left behind there is nothing to assert.
    pub fn check(&self) {
        if self.whole().is_err() {
            return;
        }
        let _no_compaction = Alone::wait(&self.parts.compacting);
        let _no_fetch = Alone::wait(&self.parts.tending);
        self.check_still();
    }

    fn check_still(&self) {
        let (mut ready, mut committed) = (0, 0);
        let mut lens = Vec::new();
        for class in &self.parts.classes {
            let locked = Locked::new(&self.parts, class);
            locked.check(|offset, index| {
                let word = self.owner.words().with(index, |word, _| word.peek().decode());
                let Some(Ok(place)) = word else {
                    panic!("the object at {offset:#x} is of word {index}, which holds {word:?}")
                };
                assert_eq!(place.offset, offset, "word {index} names another object (I1)");
                assert!(place.len <= class.capacity(), "word {index}: {place:?} in {class:?}");
                lens.push(place.len);
            });
            ready += locked.state.ready as usize;
            committed += locked.state.committed as usize;
        }
        assert_eq!(ready, self.parts.ready.load(Relaxed), "pages kept ready");
        assert_eq!(committed, self.pages().used(), "pages committed");
        self.parts.check_plan(&lens);
        self.parts.memory.space.check();
        self.parts.memory.arena.check();
        self.owner.check();
    }
}

/// A word locked for reading.
#[derive(Debug)]
pub struct Pin<'p, E = ()> {
    /// The object and its mark, or the payload.
    held: Result<(Pinned, u8), u64>,
    word: Option<Shared<'p, E>>,
}

impl<E> Pin<'_, E> {
    /// What the word holds.
    ///
    /// # Panics
    /// In a child of the process that pinned it, as [`beside`](Self::beside). There a pin can only be dropped, which
    /// does nothing.
    #[inline]
    pub fn content(&self) -> Content<'_> {
        self.word.iter().for_each(Shared::expect_here);
        match &self.held {
            Ok((object, mark)) => Content::Object { bytes: object.bytes(), mark: *mark },
            Err(payload) => Content::Inline(*payload),
        }
    }

    /// What lies beside the word, if it is there and so is locked.
    pub fn beside(&self) -> Option<&E> {
        self.word.as_ref().map(Shared::beside)
    }

    /// Clears bits of the mark of the object that is pinned, while others read it too; nothing where none is. The pin
    /// goes on to show the mark that it found.
    pub fn unmark(&self, bits: u8) {
        if let (Ok(_), Some(word)) = (&self.held, &self.word) {
            word.unmark(bits);
        }
    }

    /// Has the processor fetch the first `lines` lines of what the word holds, which is to be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, lines: usize) {
        if let Ok((object, _)) = &self.held {
            object.prefetch(lines);
        }
    }
}
