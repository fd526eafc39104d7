//! Rows: what lies beside each entry, 4 bytes for each column that its table has.

use crate::sync::{AtomicU32, Ordering::Relaxed};

/// What a pool notes beside each of its entries, in 4 bytes each. It goes with what the entry
/// holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// When the entry was used, in seconds.
    pub access_time: bool,
    /// The checksum of what it holds.
    pub checksum: bool,
}

/// What the rows of a table have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Empty,
    AccessTime,
    Checksum,
    /// Both, in this order.
    TimeAndSum,
    /// The generation that the next handle of a handle slot has.
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

/// Columns a row has at most.
const COLUMNS_MAX: usize = 2;
/// What a row says: as many as it has columns.
pub(super) type RowValues = [u32; COLUMNS_MAX];

impl RowKind {
    /// Returns how many columns there are.
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

/// What lies beside an entry. A thread that has the entry locked may change it, for reading too.
#[derive(Clone, Copy, Debug)]
pub struct Row<'t>(pub(super) Cells<'t>);

/// The columns of a row where they lie.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cells<'t> {
    Empty,
    AccessTime(&'t AtomicU32),
    Checksum(&'t AtomicU32),
    TimeAndSum(&'t [AtomicU32; COLUMNS_MAX]),
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

    /// Returns the access time noted last, in seconds; 0 if none was since the entry was made or
    /// emptied; `None` where none is ever noted.
    pub fn access_time(self) -> Option<u32> {
        Some(self.access_column()?.load(Relaxed))
    }

    /// Notes an access time, where they are noted.
    #[inline]
    pub fn set_access_time(self, seconds: u32) {
        if let Some(column) = self.access_column() {
            column.store(seconds, Relaxed);
        }
    }

    /// Returns the checksum noted last; `None` where none is ever noted.
    #[inline]
    pub fn checksum(self) -> Option<u32> {
        Some(self.checksum_column()?.load(Relaxed))
    }

    /// Notes the checksum of what the entry, which is locked for a change, is about to hold, where
    /// they are noted.
    #[inline]
    pub fn set_checksum(self, checksum: u32) {
        if let Some(column) = self.checksum_column() {
            column.store(checksum, Relaxed);
        }
    }

    /// Returns the generation that the slot's next handle has; 0 where there are none.
    pub(crate) fn generation(self) -> u32 {
        self.generation_column().map_or(0, |column| column.load(Relaxed))
    }

    /// The entry was made empty, and is locked still: its access time goes, and its generation
    /// ends.
    pub(crate) fn emptied(self) {
        self.set_access_time(0);
        if let Some(column) = self.generation_column() {
            // Only the holder of the entry's lock changes it.
            column.store(column.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Returns all that it says.
    pub(super) fn values(self) -> RowValues {
        std::array::from_fn(|nth| self.columns().get(nth).map_or(0, |column| column.load(Relaxed)))
    }

    /// Says all that. No one looks at it meanwhile.
    pub(super) fn set_values(self, values: RowValues) {
        for (column, value) in self.columns().iter().zip(values) {
            column.store(value, Relaxed);
        }
    }
}
