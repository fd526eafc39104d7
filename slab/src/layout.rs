//! The layouts of slabs, by name: where and how free objects are noted.
//!
//! ```text
//!   linked-bufctl  | header 40 | index: u32 each |pad| object | ...   or both off the slab
//!   stack-u32                  | index: u32 each |pad| object | ...   or the index off it
//!   stack          | object | object | ... | index: u8, u16 or u32 each |   likewise
//!   native         | object | object | ...                            nothing but bits
//! ```

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// Bytes of a line of the processor's cache.
pub(crate) const LINE: usize = 64;
/// Most pages of a slab.
pub(crate) const PAGES_MAX: usize = 16;
/// Pages of an entry of the map from pages to slabs.
pub(crate) const GRANULE: u32 = 4;

/// Where and how a slab's free objects are noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// No index: what is free is told by the bits that say what is live.
    #[default]
    Native,
    /// A stack of indexes of the smallest width that fits, on the slab or off it, whichever packs
    /// more.
    Stack,
    /// A stack of 4-byte indexes, as SLAB had from 2013 on.
    StackU32,
    /// A linked list of 4-byte indexes behind a header of 40 bytes, as SLAB had before.
    LinkedBufctl,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 4] =
        [Layout::Native, Layout::Stack, Layout::StackU32, Layout::LinkedBufctl];

    /// Returns the name that the layout is selected by.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Native => "native",
            Layout::Stack => "stack",
            Layout::StackU32 => "stack-u32",
            Layout::LinkedBufctl => "linked-bufctl",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Layout::ALL.into_iter().find(|layout| layout.name() == name).ok_or(Error::UnknownLayout)
    }
}

/// Returns the alignment that keeps small objects within a line of the processor's cache: 64,
/// halved as long as two objects fit, and 8 at least. SLAB uses it for its own caches.
pub fn line_align(size: usize) -> usize {
    let mut align = LINE;
    while align > 8 && size <= align / 2 {
        align /= 2;
    }
    align
}
