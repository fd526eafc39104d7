//! Numbered entries: the owner for a device, whose slot n is entry n.

use crate::entry_pool::sealed;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::table::{Beside, LEAF, Table};
use crate::{Config, EntryPool, Error, Old, Owner};

/// What a slot has beside its entry: nothing, a [`Stamp`], a [`Sum`], or [`Both`].
pub trait BesideSlot: Beside<Leaf = (), Seed = ()> {
    /// Whether it notes times.
    const STAMPED: bool;

    /// Notes a time.
    fn stamp(&self, seconds: u32);

    /// The time noted last, 0 if none was since the slot was made or emptied; `None` where none is
    /// ever noted.
    fn stamped(&self) -> Option<u32>;

    /// Whether it notes sums.
    const SUMMED: bool = false;

    /// Notes the checksum of what the entry, which is locked for a change, is about to hold.
    fn note_sum(&self, _sum: u32) {}

    /// The checksum noted last; `None` where none is ever noted.
    fn sum(&self) -> Option<u32> {
        None
    }
}

impl BesideSlot for () {
    const STAMPED: bool = false;

    #[inline]
    fn stamp(&self, _seconds: u32) {}

    fn stamped(&self) -> Option<u32> {
        None
    }
}

/// A time in seconds beside each entry, 4 bytes. It goes with what the entry holds. Who has the
/// entry locked may change it, readers too.
#[derive(Debug, Default)]
pub struct Stamp(AtomicU32);

impl BesideSlot for Stamp {
    const STAMPED: bool = true;

    #[inline]
    fn stamp(&self, seconds: u32) {
        self.0.store(seconds, Relaxed);
    }

    fn stamped(&self) -> Option<u32> {
        Some(self.0.load(Relaxed))
    }
}

impl Beside for Stamp {
    type Leaf = ();
    type Seed = ();

    fn leaf(_seed: ()) {}

    fn fresh(_leaf: &()) -> Self {
        Stamp::default()
    }

    fn moved(&self) -> Self {
        Stamp(AtomicU32::new(self.0.load(Relaxed)))
    }

    fn take(&self, from: &Self) {
        self.0.store(from.0.load(Relaxed), Relaxed);
    }

    fn emptied(&self) {
        self.0.store(0, Relaxed);
    }
}

/// A checksum beside each entry, 4 bytes. It goes with what the entry holds.
#[derive(Debug, Default)]
pub struct Sum(AtomicU32);

impl BesideSlot for Sum {
    const STAMPED: bool = false;
    const SUMMED: bool = true;

    fn stamp(&self, _seconds: u32) {}

    fn stamped(&self) -> Option<u32> {
        None
    }

    #[inline]
    fn note_sum(&self, sum: u32) {
        self.0.store(sum, Relaxed);
    }

    #[inline]
    fn sum(&self) -> Option<u32> {
        Some(self.0.load(Relaxed))
    }
}

impl Beside for Sum {
    type Leaf = ();
    type Seed = ();

    fn leaf(_seed: ()) {}

    fn fresh(_leaf: &()) -> Self {
        Sum::default()
    }

    fn moved(&self) -> Self {
        Sum(AtomicU32::new(self.0.load(Relaxed)))
    }

    fn take(&self, from: &Self) {
        self.0.store(from.0.load(Relaxed), Relaxed);
    }
}

/// A time and a checksum beside each entry.
#[derive(Debug, Default)]
pub struct Both(Stamp, Sum);

impl BesideSlot for Both {
    const STAMPED: bool = true;
    const SUMMED: bool = true;

    #[inline]
    fn stamp(&self, seconds: u32) {
        self.0.stamp(seconds);
    }

    fn stamped(&self) -> Option<u32> {
        self.0.stamped()
    }

    #[inline]
    fn note_sum(&self, sum: u32) {
        self.1.note_sum(sum);
    }

    #[inline]
    fn sum(&self) -> Option<u32> {
        self.1.sum()
    }
}

impl Beside for Both {
    type Leaf = ();
    type Seed = ();

    fn leaf(_seed: ()) {}

    fn fresh(_leaf: &()) -> Self {
        Both::default()
    }

    fn moved(&self) -> Self {
        Both(self.0.moved(), self.1.moved())
    }

    fn take(&self, from: &Self) {
        self.0.take(&from.0);
        self.1.take(&from.1);
    }

    fn emptied(&self) {
        self.0.emptied();
    }
}

/// A table of entries, made as they are used, with an `E` beside each.
#[derive(Debug)]
pub struct Slots<E: BesideSlot = ()> {
    table: Table<E>,
    len: u64,
}

impl EntryPool<Slots> {
    /// A pool with entries 0 to `len - 1`; at most 2^32 - 1 of them. Who has it sees to it that it
    /// is held over forks ([`page::fork`]), or that no child uses it; but one whose pages are not
    /// in children is refused there anyway.
    pub fn with_slots(config: Config, len: u64) -> Result<Self, Error> {
        Self::with_slots_and(config, len)
    }
}

impl<E: BesideSlot> EntryPool<Slots<E>> {
    /// The same with an `E` beside each entry.
    pub fn with_slots_and(config: Config, len: u64) -> Result<Self, Error> {
        // u32::MAX marks slots of zspages that are held, so no entry has that number.
        if len > u32::MAX as u64 {
            return Err(Error::Index { index: len, len: u32::MAX as u64 });
        }
        EntryPool::new(config, |arena| Ok(Slots { table: Table::new(arena, ())?, len }))
    }

    /// The first entry from `index` on that may hold something: those passed over hold nothing.
    pub fn first_made(&self, index: u64) -> Option<u64> {
        self.owner().table.first_made(index)
    }

    /// What entry `index` holds at this moment, and what `look` says of what lies beside it;
    /// nothing where it was never made. Waits for nothing: what it holds may be changed or freed
    /// meanwhile.
    pub fn look_at<R>(&self, index: u32, look: impl FnOnce(Old, &E) -> R) -> Option<R> {
        self.try_repair();
        self.owner().table.peek(index, |entry, beside| look(Old::from(entry.peek()), beside))
    }

    /// Whether entry `index` holds nothing, and no one has it locked who may be about to change
    /// that.
    pub fn is_vacant(&self, index: u32) -> bool {
        self.try_repair();
        self.owner().table.peek(index, |entry, _| entry.is_vacant()).unwrap_or(true)
    }

    /// Shows `look` entries that hold something, some from `index` on, locked or not; from where to
    /// go on, if there may be more. `look` must not wait for anything.
    pub fn look_at_some(&self, index: u64, mut look: impl FnMut(u32, Old, &E)) -> Option<u64> {
        self.try_repair();
        let first = self.first_made(index)?;
        let leaf = first / LEAF as u64;
        self.owner().table.for_each_of(leaf, |nth, entry, beside| {
            let held = Old::from(entry.peek());
            if nth as u64 >= first && held != Old::Inline(0) {
                look(nth, held, beside);
            }
        });
        Some((leaf + 1) * LEAF as u64)
    }

    /// Gives the object of entry `index` the flags that `choose` says, of its length, its flags and
    /// what lies beside the entry; whether it has. Waits for nothing: an entry that is locked is
    /// left. `choose` is asked until it says the flags that are there, so a time it looks at is not
    /// older than the flags.
    pub fn set_flags_if_unlocked(&self, index: u32, choose: impl Fn(usize, u8, &E) -> u8) -> bool {
        self.ensure_here().is_ok() && self.owner().table.set_flags_if_unlocked(index, choose)
    }
}

impl<E: BesideSlot> Owner for Slots<E> {}

#[allow(private_interfaces)]
impl<E: BesideSlot> sealed::Owner for Slots<E> {
    type Beside = E;

    fn table(&self) -> &Table<E> {
        &self.table
    }

    fn check_index(&self, index: u32) -> Result<(), Error> {
        let (index, len) = (index as u64, self.len);
        if index < len { Ok(()) } else { Err(Error::Index { index, len }) }
    }

    fn lock_for_fork(&self) {
        self.table.lock_for_fork();
    }

    fn unlock_after_fork(&self) {
        self.table.unlock_after_fork();
    }

    fn repair(&self) {
        self.table.repair();
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn check(&self) {
        self.table.check();
    }
}
