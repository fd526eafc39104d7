//! A block's object: several slots compressed as one.
//!
//! ```text
//!   | codec's bytes of the members, one behind another              | set of members: 2 bytes |
//!   | the members' own bytes, if the codec gains nothing            | set of members: 2 bytes |
//!   | all slots of the block, if all are members and the codec gains nothing   |   a block long
//! ```
//! A same-filled slot is not in the object, because the slot's entry encodes the pattern. An object
//! keeps all its members until the block is stored again. A member is live while the slot's own
//! entry is empty. A live member contains the slot's current data.

use super::Members;
use crate::algorithms::Codecs;
use crate::counters::Weight;
use crate::policy;
use crate::slot::{BackingPlace, Flags};
use crate::{Error, SLOT_BYTES};
use zsmalloc::{Content, Old};

/// The priority of the device's own algorithm.
pub(crate) const DEVICE_PRIORITY: u8 = 0;
const MEMBERS_BYTES: usize = size_of::<u16>();

/// A block's object, split into its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockObject<'o> {
    pub(crate) members: Members,
    /// The priority of the algorithm that compressed the object.
    pub(crate) priority: u8,
    data: &'o [u8],
}

impl<'o> BlockObject<'o> {
    /// Returns the parts of `object`, or `None` if `object` is not the object of a block of `slots`
    /// slots. `flags` are the flags of the block's entry.
    pub(crate) fn new(object: &'o [u8], flags: Flags, slots: u32) -> Option<Self> {
        let (all, priority) = (Members::all(slots), flags.priority());
        if object.len() == all.bytes() {
            return Some(BlockObject { members: all, priority, data: object });
        }
        let (data, trailer) = object.split_last_chunk()?;
        let members = Members::of(u16::from_le_bytes(*trailer));
        let is_one = members.without(all) == Members::default() && members != Members::default();
        is_one.then_some(BlockObject { members, priority, data })
    }

    pub(crate) fn is_raw(&self) -> bool {
        self.data.len() == self.members.bytes()
    }

    /// Returns slot `nth` of the block if the object is raw and contains that slot.
    pub(crate) fn raw_slot(&self, nth: u32) -> Option<&'o [u8]> {
        let at = self.members.before(nth) * SLOT_BYTES;
        (self.is_raw() && self.members.has(nth)).then(|| &self.data[at..at + SLOT_BYTES])
    }

    /// Writes the object's decompressed slots into `buf`, one after another.
    pub(crate) fn decode(&self, codecs: &mut Codecs, buf: &mut [u8]) -> Result<(), zcomp::Error> {
        let buf = &mut buf[..self.members.bytes()];
        if self.is_raw() {
            buf.copy_from_slice(self.data);
            return Ok(());
        }
        codecs.of(self.priority).decompress(self.data, buf)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// The block has no object. The data of the block's slots are in the slots' own entries.
    Empty,
    Object {
        bytes: usize,
        /// The slots in the object, or the empty set if these slots are not known.
        members: Members,
        is_raw: bool,
    },
    /// The object is in the backing store.
    Backed(BackingPlace),
}

impl BlockKind {
    /// Decodes the entry of a block of `slots` slots.
    pub(crate) fn of(content: Content<&[u8]>, slots: u32) -> Self {
        match content {
            Content::Object { bytes, flags } => {
                let object = BlockObject::new(bytes, Flags::from_bits(flags), slots);
                // If the object is invalid, its members are not known.
                let (members, is_raw) =
                    object.map(|of| (of.members, of.is_raw())).unwrap_or_default();
                BlockKind::Object { bytes: bytes.len(), members, is_raw }
            }
            Content::Inline(_) => BackingPlace::of(content).map_or(Self::Empty, Self::Backed),
        }
    }

    /// Decodes an earlier content of an entry. Only the length of the block's object is known, so
    /// the members are the empty set.
    pub(crate) fn of_old(old: Old, slots: u32) -> Self {
        match old {
            Old::Object { bytes: len, .. } => {
                let is_raw = len == Members::all(slots).bytes();
                BlockKind::Object { bytes: len, members: Members::default(), is_raw }
            }
            Old::Inline(_) => BackingPlace::of(old).map_or(Self::Empty, Self::Backed),
        }
    }

    /// Returns the entry's contribution to the counters, without the live members, which are
    /// counted separately.
    pub(crate) fn weight(self) -> Weight {
        match self {
            BlockKind::Empty => Weight::default(),
            BlockKind::Object { bytes, members, is_raw } => {
                let slots = i64::from(members.count());
                let raw = if is_raw { slots } else { 0 };
                Weight { bytes: bytes as i64, raw, in_objects: slots, ..Weight::default() }
            }
            BlockKind::Backed(place) => {
                Weight { in_objects: place.slots.into(), ..Weight::default() }
            }
        }
    }
}

/// The buffers to compress several slots into one object.
pub(crate) struct Packer {
    pub(crate) codecs: Codecs,
    /// The compressed bytes and the trailer, before they are stored in the pool.
    scratch: Box<[u8]>,
    /// A copy of slots that are not contiguous in memory. The buffer is as long as a block.
    gathered: Box<[u8]>,
    /// The minimum compressed length, in bytes, at which a whole block is stored raw.
    huge_size: usize,
}

impl Packer {
    pub(crate) fn new(codecs: Codecs, block_bytes: usize, huge_size: usize) -> Self {
        Packer {
            codecs,
            scratch: vec![0; block_bytes + SLOT_BYTES].into(),
            gathered: vec![0; block_bytes].into(),
            huge_size,
        }
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.scratch.len() + self.gathered.len()
    }

    pub(crate) fn pack_whole<'a>(&'a mut self, block: &'a [u8]) -> Result<&'a [u8], Error> {
        let all = Members::all((block.len() / SLOT_BYTES) as u32);
        match self.compress(block, all, DEVICE_PRIORITY, self.huge_size)? {
            Some(len) => Ok(&self.scratch[..len]),
            None => Ok(block),
        }
    }

    /// Returns an object that contains the slots `members`, compressed by the algorithm with
    /// `priority`. `slot(nth)` returns the bytes of the block's slot `nth`.
    pub(crate) fn pack<'s>(
        &mut self,
        members: Members,
        priority: u8,
        slot: impl Fn(u32) -> &'s [u8],
    ) -> Result<&[u8], Error> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let rooms = gathered.chunks_exact_mut(SLOT_BYTES);
        members.iter().zip(rooms).for_each(|(nth, room)| room.copy_from_slice(slot(nth)));
        let len = members.bytes();
        let is_whole = len == gathered.len();
        let most = if is_whole { self.huge_size } else { policy::raw_from(len) };
        let packed = self.compress(&gathered[..len], members, priority, most);
        self.gathered = gathered;
        match packed? {
            Some(len) => Ok(&self.scratch[..len]),
            None if is_whole => Ok(&self.gathered),
            None => {
                let end = len + MEMBERS_BYTES;
                self.gathered[len..end].copy_from_slice(&members.bits().to_le_bytes());
                Ok(&self.gathered[..end])
            }
        }
    }

    /// Compresses `slots` into `scratch`. Returns the length of the new object if the length is
    /// less than `most`, else `None`.
    fn compress(
        &mut self,
        slots: &[u8],
        members: Members,
        priority: u8,
        most: usize,
    ) -> Result<Option<usize>, Error> {
        let packed = self.codecs.of(priority).compress(slots, &mut self.scratch)?;
        let len = packed.map(|packed| packed + MEMBERS_BYTES).filter(|&len| len < most);
        if let Some(len) = len {
            self.scratch[len - MEMBERS_BYTES..len].copy_from_slice(&members.bits().to_le_bytes());
        }
        Ok(len)
    }
}
