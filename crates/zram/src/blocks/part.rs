//! What happens to parts of a block: slots of it are overwritten or freed, and it is stored anew without them.

use super::{Change, Members, OWN, decoded};
use crate::cold::Place;
use crate::layout::Whose;
use crate::parts::Part;
use crate::request::{Request, put};
use crate::slot::{self, ACCESSED, IDLE};
use crate::stop::Stop;
use crate::streams::Workspace;
use crate::table::Table;
use crate::{BLOCK, Error, fill};
use std::ops::Range;
use zsmalloc::{BesideSlot, Content, EntryWriteGuard, Old};

/// Blocks that a discard looks at before it gives its stream back.
const BLOCKS: usize = 1 << 14;
/// A block is stored anew without its dead slots when they are this share of it, or of all there are on the device
/// too many are dead.
const DEAD_SHARE: u32 = 2;
const DEAD_SHARE_OF_ALL: u64 = 32;

/// When a block is stored anew without its dead slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settle {
    /// When it is worth it.
    IfWorth,
    /// If it has any.
    IfDead,
}

impl<E: BesideSlot> Request<'_, E> {
    /// Writes to a slot that is in its block, zeros without `data`; false if it no longer is.
    pub(crate) fn write_in_block(
        &mut self,
        part: &Part,
        data: Option<&[u8]>,
    ) -> Result<bool, Stop> {
        let (table, layout) = (self.table, self.layout());
        let block = layout.block_of(part.slot);
        let block_word = layout.block_word(block);
        let word = table.pool.lock_existing(block_word);
        let Some(word) = word.filter(|word| word.content() != Content::Inline(0)) else {
            return Ok(false);
        };
        // Where none can be made, the slot is in its block, and stays so.
        let slot_word = table.lock(part.slot, self.seconds);
        if slot_word.as_ref().is_ok_and(|word| word.content() != Content::Inline(0)) {
            return Ok(false);
        }
        let nth = part.slot - layout.first_slot(block);
        let mut slot = [0; BLOCK];
        if !part.is_whole() {
            let content = self.here(block_word, word.content(), Some(word.beside()))?;
            let Some(stored) = table.stored(block, content)? else { return Ok(false) };
            let decoded = decoded(table, self.workspace.blocks(), block, &stored)?.0;
            slot.copy_from_slice(decoded.slot(nth).ok_or_else(|| table.damaged(block))?);
        }
        part.change(&mut slot, data);
        let Workspace { codecs, scratch, .. } = &mut *self.workspace;
        let encoded = slot::encode(&slot, codecs.own(), &mut **scratch, table.shared.huge_size)?;
        self.share.of_blocks.count_write(false);
        let put = |word| put(table, self.share, (part.slot, word), encoded, ACCESSED);
        match slot_word.and_then(put) {
            Ok(_) => {
                self.share.changed_live([1, 0]);
                self.settle(block, word, Settle::IfWorth);
                Ok(true)
            }
            // No room beside the block, or no word to say so: it is stored anew with the slot, at its own place if it fits (I6).
            Err(refused) => {
                if Place::of_content(word.content()).is_some() {
                    return Err(refused.into());
                }
                let members = table.live(block);
                let stored_anew = self.store(block, word, members, Some((nth, &slot)));
                stored_anew.map(|()| true).map_err(|_| refused.into())
            }
        }
    }

    /// Stores a block that is locked anew: of what it has, `members` alone, one of them changed if there is a `patch`. Only
    /// then is it an access.
    fn store(
        &mut self,
        block: u32,
        word: EntryWriteGuard<'_, E>,
        members: Members,
        patch: Option<(u32, &[u8])>,
    ) -> Result<(), Error> {
        let table = self.table;
        table.verify(table.shared.layout.block_word(block), word.content(), Some(word.beside()))?;
        let Some(stored) = table.stored(block, word.content())? else { return Ok(()) };
        if members.iter().any(|nth| !stored.members.has(nth)) {
            return Err(table.damaged(block));
        }
        let (decoded, packer) = decoded(table, self.workspace.blocks(), block, &stored)?;
        let slot = |nth| match patch {
            Some((patched, bytes)) if patched == nth => bytes,
            _ => decoded.slot(nth).unwrap_or_default(),
        };
        // Not by another algorithm than it was found worth; but what is written, by the device's own.
        let priority = if patch.is_some() { OWN } else { stored.priority };
        let object = packer.pack(members, priority, slot)?;
        let first = self.table.shared.layout.first_slot(block);
        let room = word.reserve(object).map_err(|error| table.shared.full(first, error))?;
        let access = match patch {
            Some(_) => {
                word.beside().stamp(self.seconds);
                ACCESSED
            }
            None => slot::flags_of(word.content()) & IDLE,
        };
        let new = Some((room, object, priority | access));
        Change { block: (block, word), words: [], new, live: [0; 2] }.make(table, self.share);
        self.share.of_blocks.rewrites.add(1);
        Ok(())
    }

    /// Frees the object of a block that is locked, if none of its slots is in it any more, or stores it anew without the
    /// dead ones. Where there is no room for that they stay.
    fn settle(&mut self, block: u32, word: EntryWriteGuard<'_, E>, when: Settle) {
        let table = self.table;
        let live = table.live_in(block, &word);
        let is_away = Place::of_content(word.content()).is_some();
        let stored = table.stored(block, word.content());
        if live == Members::default() && (is_away || matches!(stored, Ok(Some(_)))) {
            self.free_object((block, word), live, Members::default());
            return;
        }
        // What is away keeps its dead slots until all are.
        let Ok(Some(stored)) = stored else { return };
        let (count, dead) = (stored.members.count(), stored.members.count() - live.count());
        let is_worth = || {
            let (all, all_dead) = table.shared.counters.in_objects();
            dead * DEAD_SHARE >= count || all_dead * DEAD_SHARE_OF_ALL > all
        };
        if dead > 0 && (when == Settle::IfDead || is_worth()) {
            let _ = self.store(block, word, live, None);
        }
    }

    /// Frees the object of a block that is locked, and `slots` of it: with those that are in it, `live`. There are no holes
    /// then.
    fn free_object(
        &self,
        (block, word): (u32, EntryWriteGuard<'_, E>),
        live: Members,
        slots: Members,
    ) {
        let (table, layout) = (self.table, self.layout());
        let first = layout.first_slot(block);
        let words = table.lock_words_of(block, Members::all(layout.slots()));
        let words = words.filter_map(|(slot, word)| {
            let is_hole = word.content() == Content::Inline(fill::HOLE);
            (is_hole || slots.has(slot - first)).then_some((word, 0))
        });
        let words: Vec<_> = words.collect();
        let live = [live.count(), 0];
        Change { block: (block, word), words, new: None, live }.make(table, self.share);
    }

    /// Frees the first of some slots; from where to go on. An error is noted, and the others go on.
    pub(crate) fn free_some_in_blocks(
        &mut self,
        slots: Range<u64>,
        done: &mut Result<(), Error>,
    ) -> u64 {
        let layout = self.layout();
        let mut next = slots.start;
        let mut blocks = self.table.blocks_from(next / u64::from(layout.slots()));
        for _ in 0..BLOCKS {
            let block =
                blocks.next().filter(|&block| u64::from(layout.first_slot(block)) < slots.end);
            let Some(block) = block else {
                next = slots.end;
                break;
            };
            let Range { start, end } = layout.slots_of(block);
            let of_it = u64::from(start).max(slots.start)..u64::from(end).min(slots.end);
            next = of_it.end;
            let of_it = of_it.start as u32..of_it.end as u32;
            let mut freed = std::iter::repeat_with(|| self.free_in_block(block, of_it.clone()));
            if let Some(Err(error)) = freed.find(|freed| *freed != Ok(false)) {
                *done = Err(error);
            }
        }
        self.share.notify_free.add((next - slots.start) as i64);
        next
    }

    /// Frees some slots of a block; false if it was made meanwhile. An error leaves the slots alone that it is of.
    fn free_in_block(&mut self, block: u32, slots: Range<u32>) -> Result<bool, Error> {
        let (table, layout) = (self.table, self.layout());
        let first = layout.first_slot(block);
        let some = slots.map(|slot| slot - first).fold(Members::default(), Members::with);
        let block_word = table.pool.lock_existing(layout.block_word(block));
        let Some(word) = block_word.filter(|word| word.content() != Content::Inline(0)) else {
            for (slot, word) in table.lock_words_of(block, some) {
                if table.has_block(slot) {
                    return Ok(false);
                }
                table.set(self.share, word, 0);
            }
            return Ok(true);
        };
        let live = table.live_in(block, &word);
        if live.without(some) == Members::default() {
            self.free_object((block, word), live, some);
            return Ok(true);
        }
        let mut done = Ok(true);
        for nth in some.iter() {
            // One that is in the block needs a word, to say that it no longer is. Others have theirs.
            match table.lock(first + nth, self.seconds) {
                Ok(slot) => {
                    table.set(self.share, slot, fill::HOLE);
                    self.share.changed_live([live.has(nth).into(), 0]);
                }
                Err(error) => done = Err(error),
            }
        }
        self.settle(block, word, Settle::IfWorth);
        done
    }
}

impl<E: BesideSlot> Table<E> {
    /// Stores all blocks anew that have dead slots.
    pub(crate) fn settle_all(&self) {
        let layout = self.shared.layout;
        let (_, dead) = self.shared.counters.in_objects();
        let mut next = Some(0).filter(|_| dead > 0);
        let mut blocks = Vec::new();
        while let Some(from) = next {
            next = self.pool.look_at_some(from, |word, held, _| {
                if let (Whose::Block(block), Old::Object { .. }) = (layout.whose(word), held) {
                    blocks.push(block);
                }
            });
            for block in blocks.drain(..) {
                let mut request = Request::begin(self);
                if let Some(word) = self.pool.lock_existing(layout.block_word(block)) {
                    request.settle(block, word, Settle::IfDead);
                }
            }
        }
    }
}
