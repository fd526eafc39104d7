//! Cells: words with a generation, given out and taken back, behind the handles of a [`Pool`](crate::Pool).
//!
//! ```text
//!   leaf: | words: 256 of 8 bytes | generations: 256 of 4 bytes |     3 KiB of the arena
//! ```
//! A free cell's word holds the number of the next free one, plus 1. A cell's generation grows when it
//! is freed; at the last generation the cell is retired, so a stale handle is never taken for a live one.

use crate::Error;
use crate::core::sealed;
use crate::leaves::Leaves;
use crate::sync::{AtomicU32, Mutex, Ordering};
use crate::word::{Value, Word};
use slab::Arena;
use std::sync::Arc;

const LEAF: u64 = 256;
/// Generations are 1 to this: 20 bits of a handle.
pub(crate) const GENERATION_MAX: u32 = (1 << 20) - 1;

#[derive(Debug)]
struct Leaf {
    words: [Word; LEAF as usize],
    generations: [AtomicU32; LEAF as usize],
}

#[derive(Debug, Default)]
struct Free {
    /// First free cell plus 1; 0 is none.
    head: u64,
    /// Cells below this number have been used.
    used: u64,
    live: u64,
}

/// A table of cells.
#[derive(Debug)]
pub struct Cells {
    leaves: Leaves<Leaf>,
    free: Mutex<Free>,
    /// The generation that cells begin with.
    first_generation: u32,
}

impl Cells {
    pub(crate) fn new(arena: &Arc<Arena>, first_generation: u32) -> Result<Self, Error> {
        debug_assert!((1..=GENERATION_MAX).contains(&first_generation));
        Ok(Cells { leaves: Leaves::new(arena)?, free: Mutex::default(), first_generation })
    }

    /// Takes a free cell: its number and generation. Its word holds nothing.
    pub(crate) fn take(&self) -> Result<(u32, u32), Error> {
        let mut free = self.free.lock();
        let index = match free.head.checked_sub(1) {
            Some(index) => index as u32,
            None => {
                let index = u32::try_from(free.used).ok().filter(|&index| index != u32::MAX);
                let len = u32::MAX as u64;
                let index = index.ok_or(Error::Index { index: free.used, len })?;
                sealed::Owner::make_word(self, index)?;
                free.used += 1;
                free.live += 1;
                return Ok((index, self.generation(index).unwrap_or(1)));
            }
        };
        let Some(word) = sealed::Owner::word(self, index) else {
            unreachable!("free cell {index} was never made");
        };
        let Err(next) = word.lock_exclusive().decode() else {
            unreachable!("free cell {index} holds an object");
        };
        word.unlock_exclusive(Value::EMPTY);
        free.head = next;
        free.live += 1;
        Ok((index, self.generation(index).unwrap_or(1)))
    }

    /// The generation of a cell that was made.
    pub(crate) fn generation(&self, index: u32) -> Option<u32> {
        let leaf = self.leaves.get(index as u64 / LEAF)?;
        Some(leaf.generations[(index as u64 % LEAF) as usize].load(Ordering::Relaxed))
    }

    /// Whether a cell's generations are used up.
    fn is_retired(&self, index: u32) -> bool {
        self.generation(index).is_none_or(|now| now > GENERATION_MAX)
    }

    /// Ends a cell's generation: its handle is stale from now on. The caller holds its word exclusively.
    pub(crate) fn retire_generation(&self, index: u32) {
        if let Some(leaf) = self.leaves.get(index as u64 / LEAF) {
            leaf.generations[(index as u64 % LEAF) as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Puts a cell, whose word holds nothing, back into the list of free ones.
    pub(crate) fn give(&self, index: u32) {
        let mut free = self.free.lock();
        free.live -= 1;
        let retired = self.is_retired(index);
        if let Some(word) = sealed::Owner::word(self, index).filter(|_| !retired) {
            word.lock_exclusive();
            word.unlock_exclusive(Value::inline(free.head));
            free.head = index as u64 + 1;
        }
    }

    /// Number and generation of the cells whose words name objects.
    pub(crate) fn live_cells(&self) -> impl Iterator<Item = (u32, u32)> {
        let used = self.free.lock().used as u32;
        (0..used).filter_map(|index| {
            let word = sealed::Owner::word(self, index)?;
            word.peek().decode().ok().and_then(|_| Some((index, self.generation(index)?)))
        })
    }

    /// Cells given out.
    pub(crate) fn live(&self) -> u64 {
        self.free.lock().live
    }
}

impl crate::Owner for Cells {}

#[allow(private_interfaces)]
impl sealed::Owner for Cells {
    fn word(&self, index: u32) -> Option<&Word> {
        let leaf = self.leaves.get(index as u64 / LEAF)?;
        Some(&leaf.words[(index as u64 % LEAF) as usize])
    }

    fn make_word(&self, index: u32) -> Result<&Word, Error> {
        let leaf = self.leaves.get_or_make(index as u64 / LEAF, || Leaf {
            words: std::array::from_fn(|_| Word::new(Value::EMPTY)),
            generations: std::array::from_fn(|_| AtomicU32::new(self.first_generation)),
        })?;
        Ok(&leaf.words[(index as u64 % LEAF) as usize])
    }

    fn hold(&self) {
        self.free.hold();
        self.leaves.hold();
    }

    fn let_go(&self) {
        self.leaves.let_go();
        self.free.let_go();
    }

    fn mend(&self) {
        self.leaves.iter().flat_map(|leaf| &leaf.words).for_each(Word::unlock_lost);
        self.leaves.mend();
        // Cells without an object are free, whatever a lost thread had them for; it may not have come to
        // ending their generation.
        let mut free = self.free.lock();
        (free.head, free.live) = (0, 0);
        for index in (0..free.used as u32).rev() {
            let Some(word) = sealed::Owner::word(self, index) else { continue };
            if word.peek().decode().is_ok() {
                free.live += 1;
                continue;
            }
            self.retire_generation(index);
            if !self.is_retired(index) {
                word.lock_exclusive();
                word.unlock_exclusive(Value::inline(free.head));
                free.head = index as u64 + 1;
            }
        }
    }

    fn bytes(&self) -> usize {
        self.leaves.bytes()
    }

    fn check(&self) {
        self.leaves.check();
        let free = self.free.lock();
        let (mut next, mut count) = (free.head, 0);
        while let Some(index) = next.checked_sub(1) {
            count += 1;
            assert!(count <= free.used, "the list of free cells has a cycle");
            let value = sealed::Owner::word(self, index as u32).map(|word| word.peek().decode());
            let Some(Err(after)) = value else { panic!("free cell {index} holds {value:?}") };
            next = after;
        }
        let retired = (0..free.used as u32).filter(|&index| self.is_retired(index)).count() as u64;
        assert_eq!(free.live + count + retired, free.used, "cells are live, free or retired");
    }
}
