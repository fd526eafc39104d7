//! A block's object: several slots compressed as one.
//!
//! ```text
//!   | codec's bytes of the slots that are in it, one behind another | which those are: 2 bytes |
//!   | the slots themselves, if the codec gains nothing              | which those are: 2 bytes |
//!   | all slots of the block, if all are in it and the codec gains nothing      |   a block long
//! ```
//! Slots of one pattern are not in it: their entries have them. The slots *of* an object stay the
//! same until the block is stored anew; which of them are still the device's data, the slots'
//! entries say: those that are empty.

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

/// An object, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockObject<'o> {
    pub(crate) members: Members,
    /// Of the algorithm that made it.
    pub(crate) priority: u8,
    data: &'o [u8],
}

impl<'o> BlockObject<'o> {
    /// `None`: it is no object of a block of so many slots. `flags` are its own.
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

    /// Slot `nth`, if it is in it, and raw.
    pub(crate) fn raw_slot(&self, nth: u32) -> Option<&'o [u8]> {
        let at = self.members.before(nth) * SLOT_BYTES;
        (self.is_raw() && self.members.has(nth)).then(|| &self.data[at..at + SLOT_BYTES])
    }

    /// Writes its slots into `buf`, one behind another.
    pub(crate) fn decode(&self, codecs: &mut Codecs, buf: &mut [u8]) -> Result<(), zcomp::Error> {
        let buf = &mut buf[..self.members.bytes()];
        if self.is_raw() {
            buf.copy_from_slice(self.data);
            return Ok(());
        }
        codecs.of(self.priority).decompress(self.data, buf)
    }
}

/// What the entry of a block can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Its slots are by themselves.
    Empty,
    Object {
        bytes: usize,
        /// Slots of the object, as far as they are known.
        members: Members,
        is_raw: bool,
    },
    /// Outside memory.
    Backed(BackingPlace),
}

impl BlockKind {
    /// Decodes what the entry of a block of so many slots holds.
    pub(crate) fn of(content: Content<&[u8]>, slots: u32) -> Self {
        match content {
            Content::Object { bytes, flags } => {
                let object = BlockObject::new(bytes, Flags::from_bits(flags), slots);
                // Of one that is none, no slots are known.
                let (members, is_raw) =
                    object.map(|of| (of.members, of.is_raw())).unwrap_or_default();
                BlockKind::Object { bytes: bytes.len(), members, is_raw }
            }
            Content::Inline(_) => BackingPlace::of(content).map_or(Self::Empty, Self::Backed),
        }
    }

    /// What is known of it without its object.
    pub(crate) fn of_old(old: Old, slots: u32) -> Self {
        match old {
            Old::Object { bytes: len, .. } => {
                let is_raw = len == Members::all(slots).bytes();
                BlockKind::Object { bytes: len, members: Members::default(), is_raw }
            }
            Old::Inline(_) => BackingPlace::of(old).map_or(Self::Empty, Self::Backed),
        }
    }

    /// Returns what it adds to the counters. Of its slots the live ones are counted apart.
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

/// Makes objects of slots.
pub(crate) struct Packer {
    pub(crate) codecs: Codecs,
    /// Compressed bytes on their way to the pool, and the trailer.
    scratch: Box<[u8]>,
    /// Slots that don't lie one behind another already; a block's bytes.
    gathered: Box<[u8]>,
    /// A whole block that compresses to this or more is stored raw.
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

    /// Returns the object of a whole block.
    pub(crate) fn pack_whole<'a>(&'a mut self, block: &'a [u8]) -> Result<&'a [u8], Error> {
        let all = Members::all((block.len() / SLOT_BYTES) as u32);
        match self.compress(block, all, DEVICE_PRIORITY, self.huge_size)? {
            Some(len) => Ok(&self.scratch[..len]),
            None => Ok(block),
        }
    }

    /// Returns the object of some slots, made by the algorithm of that priority; `slot` is the nth
    /// of the block.
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

    /// Compresses slots into `scratch`; the length of their object, if it is less than `most`.
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
