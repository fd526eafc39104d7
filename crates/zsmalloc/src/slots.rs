//! Numbered entries: the owner for a device, whose slot n is entry n.

use crate::entry_pool::sealed;
use crate::table::{Columns, LEAF, Row, Table};
use crate::{Config, EntryPool, Error, Old, Owner};

/// A table of entries, made as they are used.
#[derive(Debug)]
pub struct Slots {
    table: Table,
    len: u64,
}

impl EntryPool<Slots> {
    /// A pool with entries 0 to `len - 1`; at most 2^32 - 1 of them. Who has it sees to it that it
    /// is held over forks ([`page::fork`]), or that no child uses it; but one whose pages are not
    /// in children is refused there anyway.
    pub fn with_slots(config: Config, len: u64) -> Result<Self, Error> {
        Self::with_columns(config, len, Columns::default())
    }

    /// The same with such columns beside each entry.
    pub fn with_columns(config: Config, len: u64, columns: Columns) -> Result<Self, Error> {
        // u32::MAX marks slots of zspages that are held, so no entry has that number.
        if len > u32::MAX as u64 {
            return Err(Error::Index { index: len, len: u32::MAX as u64 });
        }
        EntryPool::new(config, |arena| Ok(Slots { table: Table::new(arena, columns)?, len }))
    }

    /// The first entry from `index` on that may hold something: those passed over hold nothing.
    pub fn first_made(&self, index: u64) -> Option<u64> {
        self.owner().table.first_made(index)
    }

    /// What `look` says of what entry `index` holds at this moment, and what lies beside it;
    /// nothing where it was never made. Waits for nothing: what it holds may be changed or freed
    /// meanwhile.
    pub fn look_at<R>(&self, index: u32, look: impl FnOnce(Old, Row<'_>) -> R) -> Option<R> {
        self.try_repair();
        self.owner().table.peek(index, |entry, row| look(Old::from(entry.peek()), row))
    }

    /// Whether entry `index` holds nothing, and no one has it locked who may be about to change
    /// that.
    pub fn is_vacant(&self, index: u32) -> bool {
        self.try_repair();
        self.owner().table.peek(index, |entry, _| entry.is_vacant()).unwrap_or(true)
    }

    /// Shows `look` entries that hold something, some from `index` on, locked or not; from where to
    /// go on, if there may be more. `look` must not wait for anything.
    pub fn look_at_some(&self, index: u64, mut look: impl FnMut(u32, Old, Row<'_>)) -> Option<u64> {
        self.try_repair();
        let first = self.first_made(index)?;
        let leaf = first / LEAF as u64;
        self.owner().table.for_each_of(leaf, |nth, entry, row| {
            let held = Old::from(entry.peek());
            if nth as u64 >= first && held != Old::Inline(0) {
                look(nth, held, row);
            }
        });
        Some((leaf + 1) * LEAF as u64)
    }

    /// Gives the object of entry `index` the flags that `choose` says, of its length, its flags and
    /// what lies beside the entry; whether it has. Waits for nothing: an entry that is locked is
    /// left. `choose` is asked until it says the flags that are there, so a time it looks at is not
    /// older than the flags.
    pub fn set_flags_if_unlocked(
        &self,
        index: u32,
        choose: impl Fn(usize, u8, Row<'_>) -> u8,
    ) -> bool {
        self.ensure_here().is_ok() && self.owner().table.set_flags_if_unlocked(index, choose)
    }
}

impl Owner for Slots {}

#[allow(private_interfaces)]
impl sealed::Owner for Slots {
    fn table(&self) -> &Table {
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
