//! Numbered words: the owner for a device, whose slot n is word n.

use crate::core::sealed;
use crate::leaves::Leaves;
use crate::word::{Value, Word};
use crate::{Config, Core, Error, Owner};

/// Words of a leaf: one page of 4 KiB.
const LEAF: u64 = if cfg!(loom) { 8 } else { 512 };

/// A table of words, made as they are used.
#[derive(Debug)]
pub struct Slots {
    leaves: Leaves<[Word; LEAF as usize]>,
    len: u64,
}

impl Core<Slots> {
    /// A pool with words 0 to `len - 1`; at most 2^32 - 1 of them.
    pub fn with_slots(config: Config, len: u64) -> Result<Self, Error> {
        // u32::MAX marks slots of zspages that are held, so no word has that number.
        if len > u32::MAX as u64 {
            return Err(Error::Index { index: len, len: u32::MAX as u64 });
        }
        Core::new(config, |arena| Ok(Slots { leaves: Leaves::new(arena)?, len }))
    }
}

impl Core<Slots> {
    /// The first word from `index` on that may hold something: those passed over were never made.
    pub fn first_made(&self, index: u64) -> Option<u64> {
        let leaf = self.owner().leaves.first_made(index / LEAF)?;
        Some(index.max(leaf * LEAF))
    }
}

impl Owner for Slots {}

#[allow(private_interfaces)]
impl sealed::Owner for Slots {
    fn word(&self, index: u32) -> Option<&Word> {
        let leaf = self.leaves.get(index as u64 / LEAF)?;
        Some(&leaf[(index as u64 % LEAF) as usize])
    }

    fn make_word(&self, index: u32) -> Result<&Word, Error> {
        let index = index as u64;
        if index >= self.len {
            return Err(Error::Index { index, len: self.len });
        }
        let leaf = self
            .leaves
            .get_or_make(index / LEAF, || std::array::from_fn(|_| Word::new(Value::EMPTY)))?;
        Ok(&leaf[(index % LEAF) as usize])
    }

    fn hold(&self) {
        self.leaves.hold();
    }

    fn let_go(&self) {
        self.leaves.let_go();
    }

    fn mend(&self) {
        self.leaves.iter().flatten().for_each(Word::unlock_lost);
        self.leaves.mend();
    }

    fn bytes(&self) -> usize {
        self.leaves.bytes()
    }

    fn check(&self) {
        self.leaves.check();
    }
}
