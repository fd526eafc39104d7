//! How a cache is made.

use crate::Error;
use crate::layout::Layout;
use std::ptr::NonNull;

/// Whether misuse of objects' memory is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Debug {
    /// Only what costs little: frees that are foreign, or second ones.
    #[default]
    Off,
    /// Also writes outside an object, and to a free one. No slabs for threads.
    On,
}

/// When memory of free objects may become something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// At any time.
    #[default]
    AnyTime,
    /// Only once every guard that [`pin`](crate::pin) gave before is dropped: until then it holds
    /// an object of the cache, that one or a later one.
    Stable,
}

/// How many free objects a thread keeps in slabs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Most free objects; above, slabs go back to the cache. 0 is no slabs for threads.
    pub limit: u32,
    /// Free objects that go back at a time, at least.
    pub batchcount: u32,
}

impl Tunables {
    /// Returns what suits slabs of `objects` objects, `stride` bytes each: a mebibyte of objects,
    /// but no more than 4096, and at least two slabs of them.
    pub(crate) fn suiting(stride: usize, objects: usize) -> Self {
        let limit = ((1 << 20) / stride).clamp(16, 4096).max(2 * objects) as u32;
        Tunables { limit, batchcount: limit / 2 }
    }

    pub(crate) fn check(self) -> Result<Self, Error> {
        let Tunables { limit, batchcount } = self;
        let is_none = limit == 0 && batchcount == 0;
        let is_some = batchcount >= 1 && batchcount <= limit && limit <= 1 << 20;
        if is_none || is_some { Ok(self) } else { Err(Error::Tunables { limit, batchcount }) }
    }
}

/// What a cache is to be like; the default is what suits most.
#[derive(Clone, Debug)]
pub struct Options {
    /// What `slabinfo` calls it.
    pub name: String,
    /// How slabs are laid out.
    pub layout: Layout,
    /// Whether misuse is looked for.
    pub debug: Debug,
    /// When memory may become something else.
    pub memory: Memory,
    /// Number of objects kept for `alloc_reserved`, rounded up to whole slabs.
    pub reserve: usize,
    /// How much threads may keep; `None` is what suits the size.
    pub tunables: Option<Tunables>,
    /// Makes each object of a new slab; a user leaves the object so when it is freed.
    pub constructor: Option<fn(NonNull<u8>)>,
    /// Ends each object before its slab goes.
    pub destructor: Option<fn(NonNull<u8>)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            name: "unnamed".into(),
            layout: Layout::default(),
            debug: Debug::default(),
            memory: Memory::default(),
            reserve: 0,
            tunables: None,
            constructor: None,
            destructor: None,
        }
    }
}

impl Options {
    /// Returns whether a free object's bytes may be lost.
    pub(crate) fn may_forget(&self) -> bool {
        self.constructor.is_none() && self.memory == Memory::AnyTime
    }

    /// Returns the default under a name.
    pub fn named(name: impl Into<String>) -> Self {
        Options { name: name.into(), ..Options::default() }
    }
}
