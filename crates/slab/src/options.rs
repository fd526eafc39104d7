//! How a cache is made.

use crate::layout::Layout;
use crate::thread_slabs::Tunables;
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
    /// Objects kept for those who ask with `alloc_reserved`, in whole slabs.
    pub reserve: usize,
    /// How much threads may keep; `None` is what suits the size.
    pub tunables: Option<Tunables>,
    /// Makes each object of a new slab; a user leaves it so when he frees it.
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
    /// Whether a free object's bytes may be lost.
    pub(crate) fn may_forget(&self) -> bool {
        self.constructor.is_none() && self.memory == Memory::AnyTime
    }

    /// The default under a name.
    pub fn named(name: impl Into<String>) -> Self {
        Options { name: name.into(), ..Options::default() }
    }
}
