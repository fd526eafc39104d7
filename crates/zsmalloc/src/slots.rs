//! Numbered words: the owner for a device, whose slot n is word n.

use crate::core::sealed;
use crate::words::Words;
use crate::{Config, Core, Error, Owner};

/// A table of words, made as they are used.
#[derive(Debug)]
pub struct Slots {
    words: Words<()>,
    len: u64,
}

impl Core<Slots> {
    /// A pool with words 0 to `len - 1`; at most 2^32 - 1 of them.
    pub fn with_slots(config: Config, len: u64) -> Result<Self, Error> {
        // u32::MAX marks slots of zspages that are held, so no word has that number.
        if len > u32::MAX as u64 {
            return Err(Error::Index { index: len, len: u32::MAX as u64 });
        }
        Core::new(config, |arena| Ok(Slots { words: Words::new(arena, ())?, len }))
    }

    /// The first word from `index` on that may hold something: those passed over hold nothing.
    pub fn first_made(&self, index: u64) -> Option<u64> {
        self.owner().words.first_made(index)
    }
}

impl Owner for Slots {}

#[allow(private_interfaces)]
impl sealed::Owner for Slots {
    type Beside = ();

    fn words(&self) -> &Words<()> {
        &self.words
    }

    fn check_index(&self, index: u32) -> Result<(), Error> {
        let (index, len) = (index as u64, self.len);
        if index < len { Ok(()) } else { Err(Error::Index { index, len }) }
    }

    fn hold(&self) {
        self.words.hold();
    }

    fn let_go(&self) {
        self.words.let_go();
    }

    fn mend(&self) {
        self.words.mend();
    }

    fn bytes(&self) -> usize {
        self.words.bytes()
    }

    fn check(&self) {
        self.words.check();
    }
}
