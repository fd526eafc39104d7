//! The share of the process's mappings that a region may come to (zm-M1).

use crate::Error;
use rustix::io::Errno;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a system has that does not say.
const MAP_COUNT: usize = 65_530;
/// A chunk is not smaller: page tables come by as much.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;
/// More blocks in probation would say no more.
pub(crate) const PROBATION_MAX: usize = 4096;
/// With fewer, blocks would go as soon as they are marked.
const PROBATION_MIN: usize = 64;

/// Mappings reserved by all regions.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// A share, until it is dropped.
#[derive(Debug)]
pub(crate) struct Mappings {
    count: usize,
    pub(crate) chunk_bytes: usize,
    pub(crate) probation_max: usize,
}

fn count_max() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let count = text.ok().and_then(|text| text.trim().parse().ok());
    count.unwrap_or(MAP_COUNT) / 2
}

impl Mappings {
    /// Reserves what `bytes` bytes and so many seats come to, and `marked` blocks that each may be
    /// a mapping.
    pub(crate) fn reserve(bytes: usize, seats: usize, marked: usize) -> Result<Self, Error> {
        Self::reserve_of(&RESERVED, count_max(), bytes, 2 * seats + marked)
    }

    fn reserve_of(
        reserved: &AtomicUsize,
        max: usize,
        bytes: usize,
        others: usize,
    ) -> Result<Self, Error> {
        let mut before = reserved.load(Relaxed);
        loop {
            // No region takes more than half of what is left.
            let room = max.saturating_sub(before) / 2;
            let share = Self::within(room, bytes, others);
            let share = share.ok_or(Error::System {
                what: "as many mappings (take larger blocks, or raise vm.max_map_count)",
                errno: Errno::NOMEM.raw_os_error(),
            })?;
            let taken = reserved.compare_exchange(before, before + share.count, Relaxed, Relaxed);
            match taken {
                Ok(_) => return Ok(share),
                Err(now) => {
                    std::mem::forget(share);
                    before = now;
                }
            }
        }
    }

    fn within(room: usize, bytes: usize, others: usize) -> Option<Self> {
        let mut chunk_bytes = CHUNK_BYTES;
        while bytes.div_ceil(chunk_bytes) > room / 2 {
            chunk_bytes = chunk_bytes.checked_mul(2)?;
        }
        let others = bytes.div_ceil(chunk_bytes) + others + 2;
        let probation_max = (room.checked_sub(others)? / 2).min(PROBATION_MAX);
        (probation_max >= PROBATION_MIN).then_some(Mappings {
            count: others + 2 * probation_max,
            chunk_bytes,
            probation_max,
        })
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        RESERVED.fetch_sub(self.count, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_never_more_than_there_are() {
        for max in [200, 1000, 32_765] {
            for bytes in [1 << 20, 1 << 30, 1 << 36, 1 << 45] {
                let reserved = AtomicUsize::new(0);
                let mut count = 0;
                while let Ok(share) = Mappings::reserve_of(&reserved, max, bytes, 8) {
                    let chunks = bytes.div_ceil(share.chunk_bytes);
                    assert!(share.count >= chunks + 2 * share.probation_max + 8);
                    count += share.count;
                    assert!(count <= max);
                    std::mem::forget(share);
                }
                assert!(count > 0 || max == 200, "{max} {bytes}");
            }
        }
    }
}
