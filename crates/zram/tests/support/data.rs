//! Contents of every kind that a device meets.

use fastrand::Rng;

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
