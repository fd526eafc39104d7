//! The limit of all memory of a device.
//!
//! It is asked before each commit of pages, and compares what is counted: as no memory knows of it
//! otherwise, counting stays where it is, and a device without the limit pays nothing. Maps and
//! descriptors that come with an extent are not asked for one by one; there is always room left for
//! some.

use crate::table::Table;
use page::{Request, Supply, page_size};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

/// Bytes below the limit that are kept for what comes without asking.
pub(crate) const MARGIN: u64 = 64 << 10;

/// Of the pool's limit, what tables may take beside it where they are limited with it: one in so
/// many bytes. 16 bytes for each object of 64.
const TABLES_SHARE: u64 = 4;

/// Grants memory as long as the total stays below a limit, and another supply does too.
pub(crate) struct TotalLimit {
    /// The limit that was asked for; `u64::MAX` is none.
    asked: AtomicU64,
    /// What the device took when it was empty, if all else is limited with the pool's pages.
    empty: OnceLock<u64>,
    beside: Option<Arc<dyn Supply>>,
    table: OnceLock<Weak<Table>>,
}

impl TotalLimit {
    pub(crate) fn new(limit: Option<u64>, beside: Option<Arc<dyn Supply>>) -> Self {
        let (empty, table) = (OnceLock::new(), OnceLock::new());
        let total = TotalLimit { asked: AtomicU64::new(0), empty, beside, table };
        total.set_limit(limit);
        total
    }

    /// Has the limit held from now on, against what is counted of `table`.
    pub(crate) fn count_with(&self, table: Weak<Table>) {
        // There is one device to a total.
        let _ = self.table.set(table);
    }

    /// Has all memory be limited with the pool's pages from now on, where nothing else is asked
    /// for; the device is empty and takes `bytes`.
    pub(crate) fn limit_with_pages(&self, bytes: u64) {
        let _ = self.empty.set(bytes);
    }

    /// The limit that was asked for, or that comes with the pool's pages. It is kept nowhere:
    /// whoever sets one of the two has it follow at once.
    pub(crate) fn limit(&self) -> Option<u64> {
        let asked = Some(self.asked.load(Relaxed)).filter(|&limit| limit != u64::MAX);
        asked.or_else(|| {
            let empty = *self.empty.get()?;
            let pages = self.table()?.pool.pages().limit()?;
            let bytes = (pages as u64).saturating_mul(page_size() as u64);
            Some(empty.saturating_add(bytes).saturating_add(bytes / TABLES_SHARE))
        })
    }

    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.asked.store(limit.unwrap_or(u64::MAX), Relaxed);
    }

    fn table(&self) -> Option<Arc<Table>> {
        self.table.get()?.upgrade()
    }

    fn has_room(&self, request: Request) -> bool {
        let Some(limit) = self.limit() else { return true };
        // Address space costs nothing, and pages to be committed are counted already.
        let more = match request {
            Request::Allocate { bytes } => bytes as u64,
            Request::Map { .. } | Request::Commit { .. } => 0,
        };
        self.table().is_none_or(|table| of(&table) + more + MARGIN <= limit)
    }
}

impl Supply for TotalLimit {
    fn grant(&self, request: Request) -> bool {
        self.beside.as_ref().is_none_or(|supply| supply.grant(request)) && self.has_room(request)
    }
}

impl fmt::Debug for TotalLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Total").field("limit", &self.limit()).finish_non_exhaustive()
    }
}

/// Bytes of a table and all it has.
pub(crate) fn of(table: &Table) -> u64 {
    let shared = &table.shared;
    let own = size_of_val(table) + shared.streams.bytes() + shared.counters.bytes();
    let own = own + shared.versions.bytes() + shared.store.as_ref().map_or(0, |of| of.bytes());
    (table.pool.bytes() + own) as u64
}
