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

mod cache;
mod object;
mod part;
mod whole;

pub(crate) use cache::{Cache, Versions};
pub(crate) use object::{Members, OWN, Packer, Stored};

use crate::cold::Place;
use crate::stat::{Held, Share};
use crate::streams::BlockStream;
use crate::table::Table;
use crate::{Error, fill};
use cache::Decoded;
use zsmalloc::{BesideSlot, Content, Exclusive, Old, Room};

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
        self.lock_word(self.shared.layout.block_word(block), seconds)
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
