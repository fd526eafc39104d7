//! The limit of all memory of a device.
//!
//! It is asked before each commit of pages, and compares what is counted: as no memory knows of it otherwise,
//! counting stays where it is, and a device without the limit pays nothing. Maps and descriptors that come
//! with an extent are not asked for one by one; there is always room left for some.

use crate::table::AnyTable;
use page::{Request, Supply};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Bytes below the limit that are kept for what comes without asking.
pub(crate) const MARGIN: u64 = 64 << 10;

/// Grants memory as long as the total stays below a limit, and another supply does too.
pub(crate) struct Total {
    /// `u64::MAX` is none.
    limit: AtomicU64,
    beside: Option<Arc<dyn Supply>>,
    counted: OnceLock<Counted>,
}

/// Tells what is counted at the moment.
type Counted = Box<dyn Fn() -> u64 + Send + Sync>;

impl Total {
    pub(crate) fn new(limit: Option<u64>, beside: Option<Arc<dyn Supply>>) -> Self {
        let total = Total { limit: AtomicU64::new(0), beside, counted: OnceLock::new() };
        total.set_limit(limit);
        total
    }

    /// Has the limit held from now on, against what `counted` tells.
    pub(crate) fn hold_against(&self, counted: Counted) {
        // There is one device to a total.
        let _ = self.counted.set(counted);
    }

    pub(crate) fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit != u64::MAX)
    }

    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(u64::MAX), Relaxed);
    }

    fn has_room(&self, request: Request) -> bool {
        let Some(limit) = self.limit() else { return true };
        // Address space costs nothing, and pages to be committed are counted already.
        let more = match request {
            Request::Allocate { bytes } => bytes as u64,
            Request::Map { .. } | Request::Commit { .. } => 0,
        };
        self.counted.get().is_none_or(|counted| counted() + more + MARGIN <= limit)
    }
}

impl Supply for Total {
    fn grant(&self, request: Request) -> bool {
        self.beside.as_ref().is_none_or(|supply| supply.grant(request)) && self.has_room(request)
    }
}

impl fmt::Debug for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Total").field("limit", &self.limit()).finish_non_exhaustive()
    }
}

/// Bytes of a table and all it has.
pub(crate) fn of(table: &dyn AnyTable) -> u64 {
    let shared = table.shared();
    let own = size_of_val(table) + shared.streams.bytes() + shared.counters.bytes();
    let own = own + shared.versions.bytes() + shared.store.as_ref().map_or(0, |of| of.bytes());
    (table.pool_bytes() + own) as u64
}
