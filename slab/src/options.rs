//! The options of a cache.

use crate::Error;
use crate::layout::Layout;
use std::ptr::NonNull;

/// The kinds of misuse of objects' memory that a cache detects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Debug {
    /// Detects only frees of foreign addresses and double frees. These checks cost little.
    #[default]
    Off,
    /// The cache also detects writes outside an object and writes to a free object. In this mode
    /// threads own no slabs.
    On,
}

/// When the memory of free objects can be reused for other purposes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// At any time.
    #[default]
    AnyTime,
    /// Only after all guards that [`pin`](crate::pin) returned before the free have been dropped.
    /// Until then, the memory contains an object of the cache: the freed object or a later object.
    Stable,
}

/// The number of free objects that a thread keeps in its own slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// The maximum number of free objects that a thread keeps. A thread with more free objects
    /// gives up slabs. If the limit is 0, threads own no slabs.
    pub limit: u32,
    /// The minimum number of free objects that a thread gives up at a time.
    pub batchcount: u32,
}

impl Tunables {
    /// Returns tunables for slabs of `objects` objects of `stride` bytes. The limit is the number
    /// of objects in 1 MiB, but at least 16 and at most 4096. A limit below the number of objects
    /// in two slabs is raised to that number.
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

/// The properties of a cache. The default suits most uses.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the cache in `slabinfo`.
    pub name: String,
    /// The layout of the slabs.
    pub layout: Layout,
    /// The kinds of misuse that are detected.
    pub debug: Debug,
    /// When the memory of free objects can be reused for other purposes.
    pub memory: Memory,
    /// The number of objects reserved for `alloc_reserved`, rounded up to whole slabs.
    pub reserve: usize,
    /// The number of free objects that threads keep; `None` selects values that suit the size.
    pub tunables: Option<Tunables>,
    /// Constructs each object of a new slab. A user must restore the constructed state before it
    /// frees the object.
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
    /// Returns true if the bytes of a free object need not be preserved.
    pub(crate) fn may_forget(&self) -> bool {
        self.constructor.is_none() && self.memory == Memory::AnyTime
    }

    /// Returns the default options with the name `name`.
    pub fn named(name: impl Into<String>) -> Self {
        Options { name: name.into(), ..Options::default() }
    }
}
