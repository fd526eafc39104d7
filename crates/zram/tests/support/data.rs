//! Contents of every kind that a device meets.

use fastrand::Rng;
use zram::SLOT_BYTES;

/// Bytes of one of the kinds; the seed makes them differ from all others.
pub fn data(rng: &mut Rng, len: usize) -> Vec<u8> {
    let seed = rng.u64(..);
    let mut bytes = vec![0; len];
    match rng.u32(..8) {
        0 => {}
        1 => bytes
            .iter_mut()
            .zip(seed.to_ne_bytes().iter().cycle())
            .for_each(|(to, from)| *to = *from),
        2 => bytes.fill(seed as u8),
        3 => rng.fill(&mut bytes),
        kind => {
            // Runs, with a word between them: compressible to a degree that differs.
            let mut rest = &mut bytes[..];
            while !rest.is_empty() {
                let run = rng.usize(1..=4 << kind).min(rest.len());
                let (filled, behind) = rest.split_at_mut(run);
                filled.fill(rng.u8(..));
                let word = behind.len().min(4);
                rng.fill(&mut behind[..word]);
                rest = &mut behind[word..];
            }
        }
    }
    bytes
}

/// A range of `len` bytes that begins or ends at, or just beside, the edge of a block or a slot, or
/// anywhere: its start and its bytes, 3 blocks and a slot at most.
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

/// A limit in bytes at a page's edge or beside it, `pages` pages at most and a byte.
pub fn limit(rng: &mut Rng, pages: u64) -> u64 {
    let page = page::page_size() as u64;
    (rng.u64(1..=pages) * page + [0, 0, 1, page - 1][rng.usize(..4)]).min(pages * page + 1)
}
