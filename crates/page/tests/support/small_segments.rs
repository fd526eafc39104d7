//! A supply that refuses large segments, as a system with strict overcommit does.

use page::{Request, Supply};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Grants segments of 1 MiB only. A request for a larger segment is refused, and so is one for half
/// of what was refused just before.
#[derive(Debug, Default)]
pub struct SmallSegments {
    refused: AtomicUsize,
}

impl Supply for SmallSegments {
    fn grant(&self, request: Request) -> bool {
        let Request::Map { bytes } = request else { return true };
        let is_segment = bytes >= 64 << 20 || bytes * 2 == self.refused.load(Relaxed);
        let is_refused = is_segment && bytes > 1 << 20;
        self.refused.store(if is_refused { bytes } else { 0 }, Relaxed);
        !is_refused
    }
}
