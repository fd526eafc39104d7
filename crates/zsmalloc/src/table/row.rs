//! Rows. A row is stored beside each entry, and holds the entry's value in each column of the
//! table, 4 bytes each.

use crate::sync::{AtomicU32, Ordering::Relaxed};

/// The columns that a pool stores beside each of its entries, 4 bytes each. A row moves with its
/// entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The access time of the entry, in seconds.
    pub access_time: bool,
    /// The checksum of the entry's content.
    pub checksum: bool,
}

/// The columns of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Empty,
    AccessTime,
    Checksum,
    /// The access time and the checksum, in this order.
    TimeAndSum,
    /// The generation of the next handle of a handle slot.
    Generation,
}

impl From<Columns> for RowKind {
    fn from(columns: Columns) -> Self {
        match (columns.access_time, columns.checksum) {
            (false, false) => RowKind::Empty,
            (true, false) => RowKind::AccessTime,
            (false, true) => RowKind::Checksum,
            (true, true) => RowKind::TimeAndSum,
        }
    }
}

/// The values of a row, one for each column. A row has at most two columns.
pub(super) type RowValues = [u32; 2];

impl RowKind {
    #[inline]
    pub(super) fn columns(self) -> usize {
        match self {
            RowKind::Empty => 0,
            RowKind::TimeAndSum => 2,
            RowKind::AccessTime | RowKind::Checksum | RowKind::Generation => 1,
        }
    }

    pub(super) fn bytes(self) -> usize {
        self.columns() * size_of::<AtomicU32>()
    }
}

/// The columns beside an entry. A thread that has locked the entry, even for reading, is allowed to
/// change the columns.
#[derive(Clone, Copy, Debug)]
pub struct Row<'t>(pub(super) Cells<'t>);

/// References to the columns of a row in a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cells<'t> {
    Empty,
    AccessTime(&'t AtomicU32),
    Checksum(&'t AtomicU32),
    TimeAndSum(&'t [AtomicU32; 2]),
    Generation(&'t AtomicU32),
}

impl<'t> Row<'t> {
    fn columns(self) -> &'t [AtomicU32] {
        match self.0 {
            Cells::Empty => &[],
            Cells::TimeAndSum(columns) => columns,
            Cells::AccessTime(one) | Cells::Checksum(one) | Cells::Generation(one) => {
                std::slice::from_ref(one)
            }
        }
    }

    #[inline]
    fn access_column(self) -> Option<&'t AtomicU32> {
        match self.0 {
            Cells::AccessTime(time) | Cells::TimeAndSum([time, _]) => Some(time),
            _ => None,
        }
    }

    #[inline]
    fn checksum_column(self) -> Option<&'t AtomicU32> {
        match self.0 {
            Cells::Checksum(sum) | Cells::TimeAndSum([_, sum]) => Some(sum),
            _ => None,
        }
    }

    fn generation_column(self) -> Option<&'t AtomicU32> {
        match self.0 {
            Cells::Generation(generation) => Some(generation),
            _ => None,
        }
    }

    /// Returns the access time in seconds, or 0 if none was set since the entry was created or
    /// emptied. Returns `None` if the table has no column for access times.
    pub fn access_time(self) -> Option<u32> {
        Some(self.access_column()?.load(Relaxed))
    }

    /// Sets the access time, if the table has that column.
    #[inline]
    pub fn set_access_time(self, seconds: u32) {
        if let Some(column) = self.access_column() {
            column.store(seconds, Relaxed);
        }
    }

    /// Returns the checksum set last, or `None` if the table has no column for checksums.
    #[inline]
    pub fn checksum(self) -> Option<u32> {
        Some(self.checksum_column()?.load(Relaxed))
    }

    /// Sets the checksum, if the table has that column. The caller has locked the entry
    /// exclusively, and passes the checksum of the content that it is about to store.
    #[inline]
    pub fn set_checksum(self, checksum: u32) {
        if let Some(column) = self.checksum_column() {
            column.store(checksum, Relaxed);
        }
    }

    /// Returns the generation of the slot's next handle, or 0 if the table has no column for
    /// generations.
    pub(crate) fn generation(self) -> u32 {
        self.generation_column().map_or(0, |column| column.load(Relaxed))
    }

    /// Clears the access time and advances the generation. The caller has emptied the entry and
    /// still holds the entry's lock.
    pub(crate) fn emptied(self) {
        self.set_access_time(0);
        if let Some(column) = self.generation_column() {
            // Only the holder of the entry's lock changes the generation.
            column.store(column.load(Relaxed) + 1, Relaxed);
        }
    }

    pub(super) fn values(self) -> RowValues {
        std::array::from_fn(|nth| self.columns().get(nth).map_or(0, |column| column.load(Relaxed)))
    }

    /// Sets all values. No other thread reads the values during the call.
    pub(super) fn set_values(self, values: RowValues) {
        for (column, value) in self.columns().iter().zip(values) {
            column.store(value, Relaxed);
        }
    }
}
