//! Requests that cover blocks whole, and reads of any part of them.

use super::{Change, Members, OWN, Stored, decoded};
use crate::layout::Piece;
use crate::parts::{Part, parts};
use crate::request::Request;
use crate::slot::{self, ACCESSED};
use crate::stop::Stop;
use crate::{BLOCK, Error, fill};
use zsmalloc::{BesideSlot, Content, EntryReadGuard, ORDER_MAX};

/// Most slots of a block.
const SLOTS_MAX: usize = 1 << ORDER_MAX;

/// What the slots of a block that is written whole are to hold.
struct Sorted {
    /// Those that its object is to have: their words are to be empty.
    members: Members,
    payloads: [u64; SLOTS_MAX],
}

impl Sorted {
    fn new(block: &[u8]) -> Self {
        let mut sorted = Sorted { members: Members::default(), payloads: [0; _] };
        for (nth, slot) in block.chunks_exact(BLOCK).enumerate() {
            match fill::pattern_of(slot).and_then(fill::to_payload) {
                Some(payload) => sorted.payloads[nth] = payload,
                None => sorted.members = sorted.members.with(nth as u32),
            }
        }
        sorted
    }
}

impl<E: BesideSlot> Request<'_, E> {
    pub(crate) fn write_blocks(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Stop> {
        for piece in self.layout().pieces(offset, bytes.len()) {
            let at = offset + piece.request.start as u64;
            let data = &bytes[piece.request.clone()];
            if piece.within.len() == self.layout().block_bytes() {
                let written = self.write_block(piece.block, data);
                if written.inspect_err(|_| self.share.failed_writes.add(1))? {
                    self.done += data.len();
                    continue;
                }
                self.share.of_blocks.splits.add(1);
            }
            self.write_slots(at, data)?;
        }
        Ok(())
    }

    /// Writes a whole block as one object; false, and nothing is changed, if there is no room for that, or for the words it
    /// needs.
    fn write_block(&mut self, block: u32, data: &[u8]) -> Result<bool, Error> {
        let (table, layout) = (self.table, self.layout());
        let sorted = Sorted::new(data);
        if self.workspace.is_alike {
            table.pool.prefetch(layout.block_word(block));
        }
        let packer = &mut self.workspace.blocks().packer;
        let slot = |nth: u32| &data[nth as usize * BLOCK..][..BLOCK];
        let object = match sorted.members {
            none if none == Members::default() => None,
            all if all == Members::all(layout.slots()) => Some(packer.pack_whole(data)?),
            some => Some(packer.pack(some, OWN, slot)?),
        };
        let object_len = object.map(<[u8]>::len);
        let word = table.lock_block(block, self.seconds)?;
        let room = match object.map(|object| word.reserve(object)) {
            Some(Err(_)) => return Ok(false),
            room => room.and_then(Result::ok),
        };
        let live = [table.live_in(block, &word).count(), sorted.members.count()];
        // Patterns need words; of the others those that there are have to be empty.
        let mut words = [const { None }; SLOTS_MAX];
        for (slot, payload) in layout.slots_of(block).zip(sorted.payloads).filter(|of| of.1 != 0) {
            let Ok(word) = table.lock(slot, self.seconds) else { return Ok(false) };
            words[(slot - layout.first_slot(block)) as usize] = Some((word, payload));
        }
        for (slot, word) in table.lock_words_of(block, sorted.members) {
            words[(slot - layout.first_slot(block)) as usize] = Some((word, 0));
        }
        // From here on nothing fails.
        let new = room.zip(object).map(|(room, object)| (room, object, ACCESSED));
        let words = words.into_iter().flatten();
        let old = Change { block: (block, word), words, new, live }.make(table, self.share);
        self.workspace.is_alike = object_len.is_some_and(|len| slot::are_alike(old, len));
        self.share.of_blocks.count_write(true);
        Ok(true)
    }

    pub(crate) fn read_blocks(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), Stop> {
        let mut done = 0;
        while done < buf.len() {
            done += self.read_some_blocks(offset + done as u64, &mut buf[done..])?;
        }
        Ok(())
    }

    /// Reads from the start; how many bytes it came to. It can't go on where a block was made that had no word to be
    /// pinned, and begins again there: with no other pin, as they are waited for in ascending order.
    fn read_some_blocks(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, Stop> {
        let layout = self.layout();
        let pieces = layout.pieces(offset, buf.len());
        let words = layout.pieces(offset, buf.len()).map(|piece| layout.block_word(piece.block));
        let mut done = 0;
        for (piece, pin) in pieces.zip(self.table.pool.read_ahead(words)) {
            let read = self.read_piece(&pin, &piece, &mut buf[piece.request.clone()]);
            if !read.inspect_err(|stop: &Stop| stop.count(&self.share.failed_reads))? {
                break;
            }
            done = piece.request.end;
            self.done += piece.request.len();
            if !matches!(pin.content(), Content::Inline(_)) {
                self.note_access(&pin);
            }
        }
        Ok(done)
    }

    /// Reads what lies in one block; false if it was made meanwhile, so what is pinned is not it.
    fn read_piece(
        &mut self,
        pin: &EntryReadGuard<'_, E>,
        piece: &Piece,
        buf: &mut [u8],
    ) -> Result<bool, Stop> {
        let layout = self.layout();
        let content = self.here(layout.block_word(piece.block), pin.content(), pin.beside())?;
        let stored = self.table.stored(piece.block, content)?;
        let is_whole = piece.within.len() == layout.block_bytes();
        if is_whole
            && let Some(stored) = &stored
            && stored.members == Members::all(layout.slots())
            && self.table.live(piece.block) == stored.members
        {
            let codecs = &mut self.workspace.blocks().packer.codecs;
            let read = stored.decode(codecs, buf);
            read.map_err(|source| self.table.corrupt(piece.block, source))?;
            self.share.of_blocks.count_read(true);
            return Ok(true);
        }
        if stored.is_some() {
            self.share.of_blocks.count_read(is_whole);
        }
        let first = layout.first_slot(piece.block);
        let mut parts = parts(piece.within.start as u64, piece.within.len()).peekable();
        while let Some(part) = parts.next() {
            // A slot that is not in the block comes from memory while the one before it is decompressed.
            let next = parts.peek().map(|next| first + next.slot);
            next.inspect(|&next| self.table.pool.prefetch(next));
            let slot = first + part.slot;
            let part = Part { slot, ..part };
            let buf = &mut buf[part.request.clone()];
            if !self.table.is_empty_word(slot) {
                if !self.read_beside(&part, buf)? {
                    return Ok(false);
                }
                continue;
            }
            match &stored {
                Some(stored) => self.read_in_block(piece.block, stored, &part, buf)?,
                None if pin.beside().is_none() && !self.table.holds_nothing(slot) => {
                    return Ok(false);
                }
                None => {
                    fill::fill(buf, 0, 0);
                    self.share.of_slots.count_read(part.is_whole());
                }
            }
        }
        Ok(true)
    }

    /// Reads from a slot with a word of its own; false if that is empty by now.
    fn read_beside(&mut self, part: &Part, buf: &mut [u8]) -> Result<bool, Stop> {
        let pin = self.table.pool.read(part.slot);
        if pin.content() == Content::Inline(0) {
            return Ok(false);
        }
        let content = self.here(part.slot, pin.content(), pin.beside())?;
        slot::decode(content, part.within.start, buf, &mut self.workspace, part.slot)?;
        self.share.of_slots.count_read(part.is_whole());
        self.note_access(&pin);
        Ok(true)
    }

    /// Reads from a slot that is in its block, which is pinned.
    fn read_in_block(
        &mut self,
        block: u32,
        stored: &Stored<'_>,
        part: &Part,
        buf: &mut [u8],
    ) -> Result<(), Stop> {
        let nth = part.slot - self.layout().first_slot(block);
        let bytes = match stored.raw_slot(nth) {
            Some(bytes) => bytes,
            None => {
                let decoded = decoded(self.table, self.workspace.blocks(), block, stored)?.0;
                decoded.slot(nth).ok_or_else(|| self.table.damaged(block))?
            }
        };
        buf.copy_from_slice(&bytes[part.within.clone()]);
        Ok(())
    }
}
