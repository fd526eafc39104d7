//! Requests on a device whose blocks are several slots.
//!
//! ```text
//!   block's word   | object: slots 0, 1, 3 |             a block written whole is one object
//!   slots' words   | in block | in block | 7777... | in block |     same-filled ones are not in it
//!                  | in block | object   | 7777... | nothing  |     then 1 was written, and 3 discarded
//! ```
//! A slot's word alone says where its data are. B1: it changes from or to *in block* with the block's word locked
//! exclusively, else with its own lock alone. B2: while a slot is in its block, the block's object has it. B3: the block's
//! word is locked before those of its slots, and one who has a slot's locked waits for no block's. So who has the block
//! pinned finds in it whatever slots are in it; a reader who finds a slot in a block that he has not got pinned, as
//! there was none, begins again.
//!
//! Slots that were overwritten or discarded stay in the object, dead, until it is stored anew without them.

use crate::block::{Members, OWN, Packer, Stored};
use crate::cache::Decoded;
use crate::cold::Place;
use crate::layout::{Piece, Whose};
use crate::parts::{Part, parts};
use crate::request::{Request, put};
use crate::slot::{self, ACCESSED};
use crate::stat::{Held, Share};
use crate::stop::Stop;
use crate::streams::{BlockStream, Workspace};
use crate::table::Table;
use crate::{BLOCK, Error, fill};
use std::ops::Range;
use zsmalloc::{BesideSlot, Content, Exclusive, ORDER_MAX, Old, Pin, Room};

/// Most slots of a block.
const SLOTS_MAX: usize = 1 << ORDER_MAX;
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

/// What the slots of a block that is written whole are to hold.
struct Sorted {
    /// Those that its object is to have.
    members: Members,
    payloads: [u64; SLOTS_MAX],
}

impl Sorted {
    fn new(block: &[u8]) -> Self {
        let mut sorted = Sorted { members: Members::default(), payloads: [fill::IN_BLOCK; _] };
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

    /// Writes a whole block as one object; false, and nothing is changed, if the pool has no room for that.
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
        let mut changed = [const { None }; SLOTS_MAX];
        for nth in 0..layout.slots() {
            let slot = layout.first_slot(block) + nth;
            let payload = sorted.payloads[nth as usize];
            if table.held_by(slot) != Old::Inline(payload) {
                changed[nth as usize] = Some((table.lock(slot, self.seconds)?, payload));
            }
        }
        // From here on nothing fails.
        for (word, payload) in changed.into_iter().flatten() {
            let old = word.set_inline(payload);
            self.share.changed(slot::held_before(old), slot::held_inline(payload));
            table.gone(old);
        }
        let new = room.zip(object).map(|(room, object)| (room, object, ACCESSED));
        let old = replace(table, self.share, (block, word), new);
        self.workspace.is_alike = object_len.is_some_and(|len| slot::are_alike(old, len));
        self.share.of_blocks.count_write(true);
        Ok(true)
    }

    pub(crate) fn read_blocks(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), Stop> {
        let (pool, layout) = (&self.table.pool, self.layout());
        let mut pieces = layout.pieces(offset, buf.len()).peekable();
        let mut next = None;
        while let Some(piece) = pieces.next() {
            let mut pin = next.take().unwrap_or_else(|| pool.pin(layout.block_word(piece.block)));
            // As for slots: the next block's bytes come from memory while this one is decompressed.
            next = pieces.peek().map(|next| pool.pin(layout.block_word(next.block)));
            next.iter().for_each(Pin::prefetch);
            let buf = &mut buf[piece.request.clone()];
            let mut read = |request: &mut Self, pin: &_| {
                let read = request.read_piece(pin, &piece, buf);
                read.inspect_err(|stop: &Stop| stop.count(&request.share.failed_reads))
            };
            while !read(self, &pin)? {
                // Pins are waited for in ascending order.
                (next, pin) = (None, pool.pin(layout.block_word(piece.block)));
            }
            if !matches!(pin.content(), Content::Inline(_)) {
                self.note_access(&pin);
            }
            self.done += piece.request.len();
        }
        Ok(())
    }

    /// Reads what lies in one block; false if a slot is in it by now, and what is pinned is not it.
    fn read_piece(
        &mut self,
        pin: &Pin<'_, E>,
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
        for part in parts(piece.within.start as u64, piece.within.len()) {
            let buf = &mut buf[part.request.clone()];
            if !self.read_in_block(piece.block, stored.as_ref(), &part, buf)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads from slot `part.slot` of a block; false as [`read_piece`](Self::read_piece).
    fn read_in_block(
        &mut self,
        block: u32,
        stored: Option<&Stored<'_>>,
        part: &Part,
        buf: &mut [u8],
    ) -> Result<bool, Stop> {
        let slot = self.layout().first_slot(block) + part.slot;
        if !self.table.is_in_block(slot) {
            let pin = self.table.pool.pin(self.layout().word(slot));
            if !slot::is_in_block(pin.content()) {
                let content = self.here(self.layout().word(slot), pin.content(), pin.beside())?;
                let (at, workspace) = (part.within.start, &mut *self.workspace);
                slot::decode(content, at, buf, workspace, slot)?;
                self.share.of_slots.count_read(part.is_whole());
                self.note_access(&pin);
                return Ok(true);
            }
        }
        let Some(stored) = stored else { return Ok(false) };
        let decoded = decoded(self.table, self.workspace.blocks(), block, stored)?.0;
        let bytes = decoded.slot(part.slot).ok_or_else(|| self.table.damaged(block))?;
        buf.copy_from_slice(&bytes[part.within.clone()]);
        Ok(true)
    }

    /// Writes to a slot that is in its block, zeros without `data`; false if it no longer is.
    pub(crate) fn write_in_block(
        &mut self,
        part: &Part,
        data: Option<&[u8]>,
    ) -> Result<bool, Stop> {
        let (table, layout) = (self.table, self.layout());
        let block = layout.block_of(part.slot);
        let block_word = layout.block_word(block);
        let Some(word) = table.pool.lock_existing(block_word) else {
            return Ok(false);
        };
        let slot_word = table.lock(part.slot, self.seconds)?;
        if !slot::is_in_block(slot_word.content()) {
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
        match put(table, self.share, (part.slot, slot_word), encoded, ACCESSED) {
            Ok(_) => {
                self.settle(block, word, Settle::IfWorth);
                Ok(true)
            }
            // No room beside the block: it is stored anew with the slot, at its own place if it fits (I6).
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

    /// Stores a block that is locked anew: of what it has, `members` alone, one of them changed if there is a `patch`.
    fn store(
        &mut self,
        block: u32,
        word: Exclusive<'_, E>,
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
        replace(table, self.share, (block, word), Some((room, object, priority)));
        self.share.of_blocks.rewrites.add(1);
        Ok(())
    }

    /// Frees the object of a block that is locked, if none of its slots is in it any more, or stores it anew without the
    /// dead ones. Where there is no room for that they stay.
    fn settle(&mut self, block: u32, word: Exclusive<'_, E>, when: Settle) {
        let table = self.table;
        let live = table.live(block);
        if live == Members::default() && Place::of_content(word.content()).is_some() {
            replace(table, self.share, (block, word), None);
            return;
        }
        // What is away keeps its dead slots until all are.
        let Ok(Some(stored)) = table.stored(block, word.content()) else { return };
        let (count, dead) = (stored.members.count(), stored.members.count() - live.count());
        if live == Members::default() {
            replace(table, self.share, (block, word), None);
            return;
        }
        let is_worth = || {
            let (all, all_dead) = table.shared.counters.in_objects();
            dead * DEAD_SHARE >= count || all_dead * DEAD_SHARE_OF_ALL > all
        };
        if dead > 0 && (when == Settle::IfDead || is_worth()) {
            let _ = self.store(block, word, live, None);
        }
    }

    /// Frees the first of some slots; from where to go on.
    pub(crate) fn free_some_in_blocks(&mut self, slots: Range<u64>) -> u64 {
        let (pool, layout) = (&self.table.pool, self.layout());
        let mut next = slots.start;
        for _ in 0..BLOCKS {
            let made = pool.first_made(layout.word(next as u32).into()).unwrap_or(u64::MAX);
            let made = made.min(u32::MAX.into()) as u32;
            let slot = match layout.whose(made) {
                Whose::Slot(slot) => slot,
                Whose::Block(block) => layout.first_slot(block),
            };
            let start = u64::from(slot).clamp(next, slots.end);
            if start == slots.end {
                next = slots.end;
                break;
            }
            let block = layout.block_of(start as u32);
            next = (u64::from(layout.first_slot(block)) + u64::from(layout.slots())).min(slots.end);
            while !self.free_in_block(block, start as u32..next as u32) {}
        }
        self.share.notify_free.add((next - slots.start) as i64);
        next
    }

    /// Frees some slots of a block; false if one of them has become part of it meanwhile.
    fn free_in_block(&mut self, block: u32, slots: Range<u32>) -> bool {
        let (table, pool, layout) = (self.table, &self.table.pool, self.layout());
        let block_word = pool.lock_existing(layout.block_word(block));
        for slot in slots {
            let Some(word) = pool.lock_existing(layout.word(slot)) else { continue };
            if block_word.is_none() && slot::is_in_block(word.content()) {
                return false;
            }
            table.empty(self.share, word);
        }
        if let Some(word) = block_word {
            self.settle(block, word, Settle::IfWorth);
        }
        true
    }
}

/// A block's slots decompressed, and what to make an object of them with. Its word is pinned or locked.
fn decoded<'b, E: BesideSlot>(
    table: &Table<E>,
    blocks: &'b mut BlockStream,
    block: u32,
    stored: &Stored<'_>,
) -> Result<(&'b Decoded, &'b mut Packer), Error> {
    let BlockStream { packer, cache } = blocks;
    let version = table.shared.versions.now(block);
    let decoded = cache.get(block, version, |buf| {
        let decoded = stored.decode(&mut packer.codecs, buf);
        decoded.map(|()| stored.members).map_err(|source| table.corrupt(block, source))
    })?;
    Ok((decoded, packer))
}

/// Gives a block's word what it is to hold, and counts it; what it held.
pub(crate) fn replace<'t, E: BesideSlot>(
    table: &Table<E>,
    share: &Share,
    (block, word): (u32, Exclusive<'t, E>),
    new: Option<(Room<'t>, &[u8], u8)>,
) -> Old {
    let slots = table.shared.layout.slots();
    let held_before = held(word.content(), slots);
    table.shared.versions.raise(block);
    let (old, held_now) = match new {
        Some((room, bytes, mark)) => {
            let now = held(Content::Object { bytes, mark }, slots);
            (table.commit(word, room, bytes, mark), now)
        }
        None => (word.set_inline(0), Held::Nothing),
    };
    share.changed(held_before, held_now);
    table.gone(old);
    old
}

/// What a block's word holds.
pub(crate) fn held(content: Content<'_>, slots: u32) -> Held {
    let Content::Object { bytes, mark } = content else {
        let away = Place::of_content(content).map(|place| Held::BlockAway { slots: place.slots });
        return away.unwrap_or(Held::Nothing);
    };
    let stored = Stored::new(bytes, mark, slots);
    let (slots, is_raw) = stored.map_or((0, false), |of| (of.members.count(), of.is_raw()));
    Held::Block { bytes: bytes.len(), slots, is_raw }
}

impl<E: BesideSlot> Table<E> {
    /// What a slot's word holds at this moment.
    fn held_by(&self, slot: u32) -> Old {
        let held = self.pool.look_at(self.shared.layout.word(slot), |held, _| held);
        held.unwrap_or(Old::Inline(0))
    }

    /// Whether a slot is in its block: for as long as the block's word is pinned or locked, else at this moment.
    pub(crate) fn is_in_block(&self, slot: u32) -> bool {
        self.held_by(slot) == Old::Inline(fill::IN_BLOCK)
    }

    /// The slots that are in a block whose word is pinned or locked.
    pub(crate) fn live(&self, block: u32) -> Members {
        let first = self.shared.layout.first_slot(block);
        let slots = (0..self.shared.layout.slots()).filter(|nth| self.is_in_block(first + nth));
        slots.fold(Members::default(), Members::with)
    }

    pub(crate) fn lock_block(&self, block: u32, seconds: u32) -> Result<Exclusive<'_, E>, Error> {
        let layout = self.shared.layout;
        let locked = self.pool.lock(layout.block_word(block));
        let word = locked.map_err(|error| self.shared.full(layout.first_slot(block), error))?;
        word.beside().stamp(seconds);
        Ok(word)
    }

    /// The object of a block, if it has one.
    pub(crate) fn stored<'o>(
        &self,
        block: u32,
        content: Content<'o>,
    ) -> Result<Option<Stored<'o>>, Error> {
        let Content::Object { bytes, mark } = content else { return Ok(None) };
        let stored = Stored::new(bytes, mark, self.shared.layout.slots());
        stored.map(Some).ok_or_else(|| self.damaged(block))
    }

    pub(crate) fn corrupt(&self, block: u32, source: zcomp::Error) -> Error {
        Error::Corrupt { slot: self.shared.layout.first_slot(block).into(), source }
    }

    /// A block's object has not what it must have.
    pub(crate) fn damaged(&self, block: u32) -> Error {
        Error::Damaged { slot: self.shared.layout.first_slot(block).into() }
    }

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
