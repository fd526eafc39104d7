//! Words in a row, pinned ahead of need: what is read next comes from memory while something else is done.
//!
//! ```text
//!   word n            | n + 1                         | n + 2                    | n + 3 ...
//!   given out, read   | pinned, its bytes are fetched | pinned, its first one is | not looked at
//! ```
//! Objects of neighbouring words lie in zspages of their classes, so the processor can't guess where it will go on, as it
//! does in one stream of bytes. To fetch a single line two words ahead has the page table walked by then, for which the
//! lines behind it would wait.
//!
//! Words are pinned in ascending order, so those who hold some and wait for the next never wait in a circle.

use crate::Core;
use crate::core::{Owner, Pin};
use std::fmt;

/// Words that are pinned beside the one given out.
const AHEAD: usize = 2;
/// Lines of the next object that are fetched: all of a slot's. (Some processors go on by themselves once they have seen a few
/// of them read; others do not.)
const LINES: usize = 64;

/// Pins of words with consecutive numbers: see [`Core::pins`].
pub struct Pins<'p, O: Owner, W> {
    core: &'p Core<O>,
    /// The next ones, the first of them first.
    ahead: [Option<Pin<'p, O::Beside>>; AHEAD],
    /// Words that are not pinned yet.
    rest: W,
}

impl<O: Owner> Core<O> {
    /// Locks words for reading one after the other, each two words before it is given out, and has the processor fetch
    /// what they hold meanwhile. Who drops each pin before he asks for the next holds three at most. `words` ascend.
    pub fn pins<W: Iterator<Item = u32>>(&self, words: W) -> Pins<'_, O, W> {
        let mut rest = words;
        let ahead = std::array::from_fn(|_| rest.next().map(|index| self.pin(index)));
        Pins { core: self, ahead, rest }
    }
}

impl<'p, O: Owner, W: Iterator<Item = u32>> Iterator for Pins<'p, O, W> {
    type Item = Pin<'p, O::Beside>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let last = self.rest.next().map(|index| self.core.pin(index));
        last.iter().for_each(|pin| pin.prefetch(1));
        let [first, second] = &mut self.ahead;
        let next = std::mem::replace(first, std::mem::replace(second, last));
        first.iter().for_each(|pin| pin.prefetch(LINES));
        next
    }
}

impl<O: Owner, W: fmt::Debug> fmt::Debug for Pins<'_, O, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pins").field("rest", &self.rest).finish_non_exhaustive()
    }
}
