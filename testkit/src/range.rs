//! The offsets and lengths of requests.

use fastrand::Rng;
use zram::SLOT_BYTES;

/// Returns the start and the length of a range within `len` bytes. The start and the end lie at the
/// edge of a block or slot, a few bytes from such an edge, or anywhere. The length is at most 3
/// blocks plus a slot.
pub fn range(rng: &mut Rng, block: usize, len: usize) -> (usize, usize) {
    let mut point = || {
        let unit = [1, SLOT_BYTES, block][rng.usize(..3)];
        let beside = [0, 0, 0, 1, 7, SLOT_BYTES - 1][rng.usize(..6)];
        (rng.usize(..=len) / unit * unit + beside).min(len)
    };
    let (a, b) = (point(), point());
    let (from, to) = (a.min(b), a.max(b));
    (from, (to - from).min(3 * block + SLOT_BYTES))
}
