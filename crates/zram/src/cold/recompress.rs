//! Cold data compressed once more, by an algorithm that makes them smaller.

use super::select::{Candidates, Selection};
use super::snapshot::Snapshot;
use crate::algorithms::SECONDARY_MAX;
use crate::block::Members;
use crate::job::{DamagedLeft, JobKind};
use crate::layout::Item;
use crate::policy;
use crate::request::Request;
use crate::slot::{Flags, Slot, SlotKind};
use crate::streams::Workspace;
use crate::table::{BlockUpdate, Table, block_object, live_members};
use crate::try_vec::with_room;
use crate::{Error, SLOT_BYTES};
use zsmalloc::{ClassTable, Content, EntryWriteGuard};

/// What is to be compressed with which algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recompress {
    /// What.
    pub selection: Selection,
    /// Which of the algorithms, 1 to 3: see
    /// [`Config::recompression`](crate::Config::recompression).
    pub priority: usize,
    /// Those of fewer bytes are left, and so are those that do not come below it.
    pub threshold: Option<usize>,
    /// Most slots that are tried.
    pub max_pages: Option<u64>,
}

impl Default for Recompress {
    fn default() -> Self {
        let selection = Selection::default();
        Recompress { selection, priority: 1, threshold: None, max_pages: None }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recompressed {
    /// Slots and blocks that were tried.
    pub tried: u64,
    /// Those that are smaller now.
    pub smaller: u64,
    /// Bytes that were saved.
    pub saved_bytes: u64,
    /// Those that were touched meanwhile, and so left.
    pub touched: u64,
    /// Those that are damaged, and so left.
    pub damaged: DamagedLeft,
}

/// What came of one.
enum Outcome {
    /// It is not what was looked for any more.
    Left,
    Touched,
    Larger,
    Smaller(usize),
}

/// A job under way.
struct RecompressJob<'t> {
    table: &'t Table,
    how: &'t Recompress,
    classes: ClassTable,
    /// Whether there is no algorithm to try after this one.
    is_last: bool,
    snapshot: Snapshot<Vec<u8>>,
    /// The slots decompressed, one behind another.
    slots: Vec<u8>,
}

/// Compresses what is chosen once more.
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

/// Returns whether an object may become smaller by the algorithm of that priority.
fn is_eligible(priority: u8, threshold: Option<usize>, len: usize, flags: Flags) -> bool {
    !flags.is_incompressible()
        && flags.priority() < priority
        && threshold.is_none_or(|threshold| len >= threshold)
}

impl<'t> RecompressJob<'t> {
    fn new(table: &'t Table, how: &'t Recompress) -> Result<Self, Error> {
        let priority = how.priority;
        if !(1..=SECONDARY_MAX).contains(&priority) || table.algorithms[priority].is_none() {
            return Err(Error::NoAlgorithm { priority });
        }
        match how.threshold {
            Some(bytes) if bytes >= table.huge_size => {
                return Err(Error::Threshold { bytes, huge: table.huge_size });
            }
            _ => {}
        }
        let block_bytes = table.layout.block_bytes();
        Ok(RecompressJob {
            table,
            how,
            classes: table.pool.table(),
            is_last: table.algorithms[priority + 1..].iter().all(Option::is_none),
            snapshot: Snapshot { bytes: with_room(block_bytes)?, flags: Flags::NONE },
            slots: with_room(block_bytes)?,
        })
    }

    /// Returns whether a new length is enough less than the old one.
    fn is_enough_smaller(&self, old: usize, new: usize) -> bool {
        policy::is_worth_recompressing(&self.classes, old, new)
            && self.how.threshold.is_none_or(|threshold| new < threshold)
    }

    fn item(&mut self, entry: u32) -> Result<Outcome, Error> {
        match self.table.layout.item_of(entry) {
            Item::Slot(slot) => self.slot(slot, entry),
            Item::Block(block) => self.block(block, entry),
        }
    }

    /// Copies the object of an entry, if it is one to be tried.
    fn take_snapshot(&mut self, entry: u32, item: Item) -> Result<bool, Error> {
        let (how, layout) = (self.how, self.table.layout);
        let pin = self.table.pool.read(entry);
        let Content::Object { bytes, flags } = pin.content() else { return Ok(false) };
        let (len, flags, priority) = (bytes.len(), Flags::from_bits(flags), how.priority as u8);
        let is_one = how.selection.matches_object(layout, item, bytes, flags)
            && is_eligible(priority, how.threshold, len, flags);
        if is_one {
            self.table.verify(entry, pin.content(), pin.row())?;
            self.snapshot.take(bytes, flags);
        }
        Ok(is_one)
    }

    fn slot(&mut self, slot: u32, entry: u32) -> Result<Outcome, Error> {
        if !self.take_snapshot(entry, Item::Slot(slot))? {
            return Ok(Outcome::Left);
        }
        let (mut request, priority) = (Request::for_job(self.table), self.how.priority as u8);
        self.slots.resize(SLOT_BYTES, 0);
        request.workspace.decode(Slot::of(self.snapshot.content()), 0, &mut self.slots, slot)?;
        let Workspace { codecs, scratch, .. } = &mut *request.workspace;
        let len = codecs.of(priority).compress(&self.slots, &mut **scratch)?;
        // Of some lengths an object is something else.
        let len = len.filter(|&len| matches!(SlotKind::of_len(len), SlotKind::Compressed(_)));
        let new = len.filter(|&len| self.is_enough_smaller(self.snapshot.bytes.len(), len));
        let new = new.map(|len| &scratch[..len]);
        let Some(locked) = self.lock_if_unchanged(entry) else { return Ok(Outcome::Touched) };
        let Some((new, room)) = new.and_then(|new| Some((new, locked.reserve(new).ok()?))) else {
            return Ok(self.keep_old(locked, new.is_none()));
        };
        let now = Slot::Compressed { bytes: new, priority };
        let old = self.table.commit(locked, room, new, Flags::of_priority(priority));
        request.shard.changed(SlotKind::of(old).weight(), now.kind().weight());
        Ok(Outcome::Smaller(self.snapshot.bytes.len() - new.len()))
    }

    fn block(&mut self, block: u32, entry: u32) -> Result<Outcome, Error> {
        if !self.take_snapshot(entry, Item::Block(block))? {
            return Ok(Outcome::Left);
        }
        let (table, priority) = (self.table, self.how.priority as u8);
        let mut request = Request::for_job(table);
        let Some(stored) = block_object(table, block, self.snapshot.content())? else {
            return Ok(Outcome::Left);
        };
        let packer = &mut request.workspace.blocks().packer;
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
        let is_worth = self.is_enough_smaller(self.snapshot.bytes.len(), new.len());
        let Some(locked) = self.lock_if_unchanged(entry) else { return Ok(Outcome::Touched) };
        if live_members(table, block).without(members) != Members::default() {
            return Ok(Outcome::Touched);
        }
        let Some(room) = Some(()).filter(|()| is_worth).and_then(|()| locked.reserve(new).ok())
        else {
            return Ok(self.keep_old(locked, !is_worth));
        };
        let (block, smaller) = ((block, locked), self.snapshot.bytes.len() - new.len());
        let new = Some((room, new, Flags::of_priority(priority)));
        BlockUpdate { block, slots: [], new, live: [0; 2] }.apply(table, request.shard);
        Ok(Outcome::Smaller(smaller))
    }

    /// Returns the entry, if what it holds is what was seen.
    fn lock_if_unchanged(&self, entry: u32) -> Option<EntryWriteGuard<'t>> {
        let locked = self.table.pool.lock_existing(entry)?;
        let which = self.how.selection.which;
        self.snapshot.still_equals(locked.content(), which).then_some(locked)
    }

    /// Leaves the object as it is; marked, if it is known now that none of the algorithms makes it
    /// smaller.
    fn keep_old(&self, locked: EntryWriteGuard<'_>, is_larger: bool) -> Outcome {
        let flags = Flags::of(locked.content()).without_idle();
        let is_incompressible = is_larger && self.is_last;
        let flags = if is_incompressible { flags.with_incompressible() } else { flags };
        locked.set_flags(flags.bits());
        Outcome::Larger
    }
}
