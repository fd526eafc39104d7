//! Recompression of cold data with a stronger algorithm.

use super::select::{Candidates, Selection};
use crate::algorithms::SECONDARY_MAX;
use crate::block::Members;
use crate::counters::Shard;
use crate::job::{DamagedLeft, JobKind};
use crate::layout::Item;
use crate::policy;
use crate::request::Request;
use crate::slot::{Flags, Slot, SlotKind};
use crate::streams::Workspace;
use crate::table::{BlockUpdate, Table, block_object, live_members};
use crate::try_vec::with_room;
use crate::{Error, SLOT_BYTES};
use zsmalloc::{ClassTable, Content};

/// The parameters of a recompression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recompress {
    /// The slots and blocks to recompress.
    pub selection: Selection,
    /// The priority of the algorithm, 1 to 3; see
    /// [`Config::recompression`](crate::Config::recompression).
    pub priority: usize,
    /// The length, in bytes, below which objects are skipped. A new object is kept only if it is
    /// shorter than this length.
    pub threshold: Option<usize>,
    /// The number of recompressed slots after which the job ends.
    pub max_pages: Option<u64>,
}

impl Default for Recompress {
    fn default() -> Self {
        let selection = Selection::default();
        Recompress { selection, priority: 1, threshold: None, max_pages: None }
    }
}

/// The result of a recompression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recompressed {
    /// The number of slots and blocks that were recompressed, including those that did not become
    /// smaller.
    pub tried: u64,
    /// The number of slots and blocks that became smaller.
    pub smaller: u64,
    /// The number of bytes by which the objects became smaller.
    pub saved_bytes: u64,
    /// The number of slots and blocks that remain unchanged because they were accessed during the
    /// job.
    pub touched: u64,
    /// The damaged slots and blocks, which remain unchanged.
    pub damaged: DamagedLeft,
}

/// The result for one slot or block.
enum Outcome {
    /// The slot or block does not match the selection any more.
    Left,
    Touched,
    Larger,
    Smaller(usize),
}

/// A recompression under way.
struct RecompressJob<'t> {
    table: &'t Table,
    how: &'t Recompress,
    classes: ClassTable,
    /// Whether no algorithm of a higher priority exists.
    is_last: bool,
    /// The copy of the object, and the object's flags.
    seen: (Vec<u8>, Flags),
    /// The decompressed slots, one after another.
    slots: Vec<u8>,
}

/// Recompresses the selected slots and blocks.
pub(crate) fn recompress(table: &Table, how: &Recompress) -> Result<Recompressed, Error> {
    let job = table.jobs.begin(JobKind::Recompress, 0)?;
    let mut work = RecompressJob::new(table, how)?;
    let (mut done, mut pages) = (Recompressed::default(), 0);
    let (layout, selection, priority) = (table.layout, &how.selection, how.priority as u8);
    let matches = |item, len, flags| {
        selection.matches_kind(layout, item, len, flags)
            && is_eligible(priority, how.threshold, len, flags)
    };
    for entry in Candidates::new(table, matches)? {
        if how.max_pages.is_some_and(|max| pages >= max) {
            break;
        }
        job.report_progress(done.tried)?;
        let tried = match work.item(entry) {
            Ok(tried) => tried,
            Err(error) => {
                done.damaged.note(error, layout.slot_of(entry))?;
                continue;
            }
        };
        pages += match layout.item_of(entry) {
            _ if matches!(tried, Outcome::Left) => continue,
            Item::Slot(_) => 1,
            Item::Block(_) => (work.slots.len() / SLOT_BYTES) as u64,
        };
        done.tried += 1;
        match tried {
            Outcome::Left | Outcome::Larger => {}
            Outcome::Touched => done.touched += 1,
            Outcome::Smaller(by) => {
                done.smaller += 1;
                done.saved_bytes += by as u64;
            }
        }
    }
    Ok(done)
}

/// Returns true if the algorithm of `priority` is allowed to recompress such an object.
fn is_eligible(priority: u8, threshold: Option<usize>, len: usize, flags: Flags) -> bool {
    !flags.has(Flags::INCOMPRESSIBLE)
        && flags.priority() < priority
        && threshold.is_none_or(|threshold| len >= threshold)
}

impl<'t> RecompressJob<'t> {
    fn new(table: &'t Table, how: &'t Recompress) -> Result<Self, Error> {
        let priority = how.priority;
        if !(1..=SECONDARY_MAX).contains(&priority) || table.algorithms[priority].is_none() {
            return Err(Error::NoAlgorithm { priority });
        }
        if let Some(bytes) = how.threshold.filter(|&bytes| bytes >= table.huge_size) {
            return Err(Error::Threshold { bytes, huge: table.huge_size });
        }
        let block_bytes = table.layout.block_bytes();
        Ok(RecompressJob {
            table,
            how,
            classes: table.pool.table(),
            is_last: table.algorithms[priority + 1..].iter().all(Option::is_none),
            seen: (with_room(block_bytes)?, Flags::NONE),
            slots: with_room(block_bytes)?,
        })
    }

    fn item(&mut self, entry: u32) -> Result<Outcome, Error> {
        let item = self.table.layout.item_of(entry);
        match item {
            _ if !self.take_snapshot(entry, item)? => Ok(Outcome::Left),
            Item::Slot(slot) => self.slot(slot, entry),
            Item::Block(block) => self.block(block, entry),
        }
    }

    /// Copies the object of an entry. Returns true if the job should recompress the object.
    fn take_snapshot(&mut self, entry: u32, item: Item) -> Result<bool, Error> {
        let (how, layout) = (self.how, self.table.layout);
        let pin = self.table.pool.read(entry);
        let Content::Object { bytes, flags } = pin.content() else { return Ok(false) };
        let (len, flags, priority) = (bytes.len(), Flags::from_bits(flags), how.priority as u8);
        let is_one = how.selection.matches_object(layout, item, bytes, flags)
            && is_eligible(priority, how.threshold, len, flags);
        if is_one {
            self.table.verify(entry, pin.content(), pin.row())?;
            self.seen.0.clear();
            self.seen.0.extend_from_slice(bytes);
            self.seen.1 = flags;
        }
        Ok(is_one)
    }

    fn slot(&mut self, slot: u32, entry: u32) -> Result<Outcome, Error> {
        let (mut request, priority) = (Request::for_job(self.table), self.how.priority as u8);
        self.slots.resize(SLOT_BYTES, 0);
        request.workspace.decode(Slot::of(content(&self.seen)), 0, &mut self.slots, slot)?;
        let (shard, Workspace { codecs, scratch, .. }) = (request.shard, &mut *request.workspace);
        let len = codecs.of(priority).compress(&self.slots, &mut **scratch)?;
        // No compressed object has the length of a pattern or of a raw slot.
        let len = len.filter(|&len| matches!(SlotKind::of_len(len), SlotKind::Compressed(_)));
        let new = len.map(|len| &scratch[..len]);
        Ok(self.swap(shard, (Item::Slot(slot), entry), new, || true))
    }

    fn block(&mut self, block: u32, entry: u32) -> Result<Outcome, Error> {
        let (table, priority) = (self.table, self.how.priority as u8);
        let mut request = Request::for_job(table);
        let Some(stored) = block_object(table, block, content(&self.seen))? else {
            return Ok(Outcome::Left);
        };
        let (shard, packer) = (request.shard, &mut request.workspace.blocks().packer);
        self.slots.resize(stored.members.bytes(), 0);
        let decoded = stored.decode(&mut packer.codecs, &mut self.slots);
        decoded.map_err(|source| table.corrupt(block, source))?;
        let all = stored.members;
        let members = all.within(live_members(table, block));
        if members == Members::default() {
            return Ok(Outcome::Left);
        }
        let slots = &self.slots;
        let new = packer
            .pack(members, priority, |nth| &slots[all.before(nth) * SLOT_BYTES..][..SLOT_BYTES])?;
        let has_all = || live_members(table, block).without(members) == Members::default();
        Ok(self.swap(shard, (Item::Block(block), entry), Some(new), has_all))
    }

    /// Replaces the object of an entry by `new`, if the entry still contains the copied object and
    /// `is_it` returns true. If `new` is not small enough, keeps the old object. If this algorithm
    /// is the last one, flags a kept object as incompressible.
    fn swap(
        &self,
        shard: &Shard,
        (item, entry): (Item, u32),
        new: Option<&[u8]>,
        is_it: impl FnOnce() -> bool,
    ) -> Outcome {
        let (table, len, which) = (self.table, self.seen.0.len(), self.how.selection.which);
        let locked = table.pool.lock_existing(entry);
        let seen = content(&self.seen);
        let locked = locked.filter(|now| which.is_unchanged(now.content(), seen) && is_it());
        let Some(locked) = locked else { return Outcome::Touched };
        let new = new.filter(|new| {
            policy::is_worth_recompressing(&self.classes, len, new.len())
                && self.how.threshold.is_none_or(|threshold| new.len() < threshold)
        });
        let Some((new, room)) = new.and_then(|new| Some((new, locked.reserve(new).ok()?))) else {
            let flags = Flags::of(locked.content()).without(Flags::IDLE);
            let is_incompressible = new.is_none() && self.is_last;
            let flags = if is_incompressible { flags.with(Flags::INCOMPRESSIBLE) } else { flags };
            locked.set_flags(flags.bits());
            return Outcome::Larger;
        };
        let flags = Flags::of_priority(self.how.priority as u8);
        match item {
            Item::Slot(_) => {
                let old = table.commit(locked, room, new, flags);
                let now = SlotKind::of_len(new.len());
                shard.changed(SlotKind::of(old).weight(), now.weight());
            }
            Item::Block(block) => {
                let (block, new) = ((block, locked), Some((room, new, flags)));
                BlockUpdate { block, slots: [], new, live: [0; 2] }.apply(table, shard);
            }
        }
        Outcome::Smaller(len - new.len())
    }
}

fn content((bytes, flags): &(Vec<u8>, Flags)) -> Content<&[u8]> {
    Content::Object { bytes, flags: flags.bits() }
}
