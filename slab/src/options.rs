//! The options of a cache.

use crate::Error;
use crate::layout::Layout;
use std::ptr::NonNull;

/// Whether misuse of objects' memory is detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Debug {
    /// Detects only what is cheap to detect: foreign frees and double frees.
    #[default]
    Off,
    /// Also detects writes outside an object and writes to a free object. Threads have no slabs of
    /// their own.
    On,
}

/// When the memory of free objects may be used for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// At any time.
    #[default]
    AnyTime,
    /// Only after every guard that [`pin`](crate::pin) returned before is dropped: until then the
    /// memory holds an object of the cache, the same one or a later one.
    Stable,
}

/// How many free objects a thread keeps in slabs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// The maximum number of free objects; above it, slabs are returned to the cache. 0 means that
    /// threads have no slabs.
    pub limit: u32,
    /// The minimum number of free objects that are returned at a time.
    pub batchcount: u32,
}

impl Tunables {
    /// Returns tunables for slabs of `objects` objects of `stride` bytes: a mebibyte of objects, at
    /// most 4096, and at least two slabs.
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

/// The properties of a cache; the default suits most uses.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the cache in `slabinfo`.
    pub name: String,
    /// The layout of its slabs.
    pub layout: Layout,
    /// Whether misuse is detected.
    pub debug: Debug,
    /// When memory may be used for something else.
    pub memory: Memory,
    /// The number of objects kept for `alloc_reserved`, rounded up to whole slabs.
    pub reserve: usize,
    /// How much threads may keep; `None` selects values that suit the size.
    pub tunables: Option<Tunables>,
    /// Constructs each object of a new slab; a user restores that state before the object is freed.
    pub constructor: Option<fn(NonNull<u8>)>,
    /// Destroys each object before its slab is freed.
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
    /// Returns true if a free object's bytes may be lost.
    pub(crate) fn may_forget(&self) -> bool {
        self.constructor.is_none() && self.memory == Memory::AnyTime
    }

    /// Returns the default options with a name.
    pub fn named(name: impl Into<String>) -> Self {
        Options { name: name.into(), ..Options::default() }
    }
}
