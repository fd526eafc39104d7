//! The layouts of slabs. A layout determines where and how a slab's free objects are recorded.
//!
//! ```text
//!   linked-bufctl  | header 40 | index: u32 each |pad| object | ...   or both off the slab
//!   stack-u32                  | index: u32 each |pad| object | ...   or the index off it
//!   stack          | object | object | ... | index: u8, u16 or u32 each |   or the index off it
//!   native         | object | object | ...                            no index; only bits
//! ```

use crate::Error;
use crate::policy::LINE;
use std::fmt;
use std::str::FromStr;

/// Where and how a slab's free objects are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// No index: the live bits determine the free objects.
    #[default]
    Native,
    /// A stack of indexes of the smallest sufficient width. The overhead determines whether the
    /// stack lies on the slab or off the slab.
    Stack,
    /// A stack of 4-byte indexes, as in SLAB from 2013 on.
    StackU32,
    /// A linked list of 4-byte indexes after a header of 40 bytes, as in SLAB before 2013.
    LinkedBufctl,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Layout; 4] =
        [Layout::Native, Layout::Stack, Layout::StackU32, Layout::LinkedBufctl];

    /// Returns the name that selects the layout.
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

/// Returns the alignment that keeps small objects within a cache line of the processor. The result
/// is 64, halved as long as an object fits in the half, but at least 8. SLAB uses this alignment
/// for its own caches.
pub fn line_align(size: usize) -> usize {
    let mut align = LINE;
    while align > 8 && size <= align / 2 {
        align /= 2;
    }
    align
}
