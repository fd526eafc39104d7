//! The limit of all memory of a device.
//!
//! The pool calls this supply before each commit of pages, and the supply compares the device's
//! current total with the limit. So the limit needs no counters of its own. Allocations of maps and
//! descriptors are not checked one by one. A margin below the limit is reserved for maps and
//! descriptors.

use crate::policy::{TABLES_PER_PAGES, UNASKED_MARGIN};
use page::{Request, Supply, page_size};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

/// A device whose memory is limited.
pub(crate) trait Counted: Send + Sync {
    /// Returns the size of all memory of the device, in bytes.
    fn bytes(&self) -> u64;

    /// Returns the limit of the pool, in pages.
    fn page_limit(&self) -> Option<usize>;
}

/// A supply that grants memory if the total remains below a limit and another supply grants the
/// memory, too.
pub(crate) struct TotalLimit {
    /// The limit that was set, in bytes; `u64::MAX` means no limit.
    asked: AtomicU64,
    /// The total of the empty device in bytes, if tables are limited together with the pool's
    /// pages.
    empty: OnceLock<u64>,
    beside: Option<Arc<dyn Supply>>,
    counted: OnceLock<Weak<dyn Counted>>,
}

impl TotalLimit {
    pub(crate) fn new(limit: Option<u64>, beside: Option<Arc<dyn Supply>>) -> Self {
        let (empty, counted) = (OnceLock::new(), OnceLock::new());
        let total = TotalLimit { asked: AtomicU64::new(0), empty, beside, counted };
        total.set_limit(limit);
        total
    }

    /// Sets the device whose memory is compared with the limit.
    pub(crate) fn count_with(&self, device: Weak<dyn Counted>) {
        // A limit belongs to one device, so this function is called only once.
        let _ = self.counted.set(device);
    }

    /// Derives the limit from the limit of the pool's pages if no explicit limit is set. `bytes` is
    /// the total of the empty device.
    pub(crate) fn limit_with_pages(&self, bytes: u64) {
        let _ = self.empty.set(bytes);
    }

    /// Returns the limit that was set, or a limit derived from the limit of the pool's pages. The
    /// result is calculated at each call, so it reflects every change of these limits.
    pub(crate) fn limit(&self) -> Option<u64> {
        let asked = Some(self.asked.load(Relaxed)).filter(|&limit| limit != u64::MAX);
        asked.or_else(|| {
            let empty = *self.empty.get()?;
            let pages = self.counted()?.page_limit()?;
            let bytes = (pages as u64).saturating_mul(page_size() as u64);
            Some(empty.saturating_add(bytes).saturating_add(bytes / TABLES_PER_PAGES))
        })
    }

    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.asked.store(limit.unwrap_or(u64::MAX), Relaxed);
    }

    fn counted(&self) -> Option<Arc<dyn Counted>> {
        self.counted.get()?.upgrade()
    }

    fn has_room(&self, request: Request) -> bool {
        let Some(limit) = self.limit() else { return true };
        // A request for address space needs no memory. The total already includes the pages of a
        // commit.
        let more = match request {
            Request::Allocate { bytes } => bytes as u64,
            Request::Map { .. } | Request::Commit { .. } => 0,
        };
        self.counted().is_none_or(|device| device.bytes() + more + UNASKED_MARGIN <= limit)
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

/// Returns the number of pages for `bytes` bytes, rounded up.
pub(crate) fn pages_for(bytes: u64) -> usize {
    bytes.div_ceil(page_size() as u64) as usize
}
