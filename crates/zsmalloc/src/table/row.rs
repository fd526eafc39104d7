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
    /// Those columns, in this order.
    Columns(Columns),
    /// The generation that the next handle of a handle slot has.
    Generation,
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
            RowKind::Columns(columns) => columns.access_time as usize + columns.checksum as usize,
            RowKind::Generation => 1,
        }
    }

    pub(super) fn bytes(self) -> usize {
        self.columns() * size_of::<AtomicU32>()
    }
}

/// What lies beside an entry. A thread that has the entry locked may change it, for reading too.
#[derive(Clone, Copy, Debug)]
pub struct Row<'t> {
    columns: &'t [AtomicU32],
    kind: RowKind,
}

impl<'t> Row<'t> {
    #[inline]
    pub(super) fn new(columns: &'t [AtomicU32], kind: RowKind) -> Self {
        Row { columns, kind }
    }

    #[inline]
    pub(super) fn columns(self) -> &'t [AtomicU32] {
        self.columns
    }

    pub(super) fn kind(self) -> RowKind {
        self.kind
    }

    #[inline]
    fn access_column(self) -> Option<&'t AtomicU32> {
        match self.kind {
            RowKind::Columns(Columns { access_time: true, .. }) => self.columns.first(),
            _ => None,
        }
    }

    #[inline]
    fn checksum_column(self) -> Option<&'t AtomicU32> {
        match self.kind {
            RowKind::Columns(Columns { checksum: true, .. }) => self.columns.last(),
            _ => None,
        }
    }

    fn generation_column(self) -> Option<&'t AtomicU32> {
        self.columns.first().filter(|_| self.kind == RowKind::Generation)
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
        std::array::from_fn(|nth| self.columns.get(nth).map_or(0, |column| column.load(Relaxed)))
    }

    /// Says all that. No one looks at it meanwhile.
    pub(super) fn set_values(self, values: RowValues) {
        for (column, value) in self.columns.iter().zip(values) {
            column.store(value, Relaxed);
        }
    }
}
