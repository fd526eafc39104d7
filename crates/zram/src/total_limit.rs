//! The limit of all memory of a device.
//!
//! It is asked before each commit of pages, and compares what is counted: as no memory knows of it
//! otherwise, counting stays where it is, and a device without the limit pays nothing. Maps and
//! descriptors that come with an extent are not asked for one by one; there is always room left for
//! some.

use crate::policy::{TABLES_PER_PAGES, UNASKED_MARGIN};
use page::{Request, Supply, page_size};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

/// Whose memory is limited.
pub(crate) trait Counted: Send + Sync {
    /// Returns the bytes of all its memory.
    fn bytes(&self) -> u64;

    /// Returns the limit of its pool, in pages.
    fn page_limit(&self) -> Option<usize>;
}

/// Grants memory as long as the total stays below a limit, and another supply does too.
pub(crate) struct TotalLimit {
    /// The limit that was asked for; `u64::MAX` is none.
    asked: AtomicU64,
    /// What the device took when it was empty, if all else is limited with the pool's pages.
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

    /// Has the limit held from now on, against what is counted of `device`.
    pub(crate) fn count_with(&self, device: Weak<dyn Counted>) {
        // There is one device to a total.
        let _ = self.counted.set(device);
    }

    /// Has all memory be limited with the pool's pages from now on, where nothing else is asked
    /// for; the device is empty and takes `bytes`.
    pub(crate) fn limit_with_pages(&self, bytes: u64) {
        let _ = self.empty.set(bytes);
    }

    /// Returns the limit that was asked for, or that comes with the pool's pages. It is calculated
    /// at each call, so it follows at once when either of the two is set.
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
        // Address space costs nothing, and pages to be committed are counted already.
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

/// Returns the pages for `bytes`, rounded up.
pub(crate) fn pages_for(bytes: u64) -> usize {
    bytes.div_ceil(page_size() as u64) as usize
}
