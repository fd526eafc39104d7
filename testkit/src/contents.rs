//! Contents of objects and slots, which are derived from a number.

use crate::Choices;
use fastrand::Rng;

/// Returns `len` bytes that are derived from `stamp` and `len`. The bytes for different stamps
/// differ.
pub fn stamped(stamp: u64, len: usize) -> Vec<u8> {
    let mut state = (stamp ^ (len as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        bytes.extend_from_slice(&(state >> 8).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Returns shorter lengths to try instead of `len`: 1, half of `len`, and `len` - 1.
pub fn shorter(len: usize) -> impl Iterator<Item = usize> {
    let shorter = [1, len / 2, len.saturating_sub(1)].into_iter();
    shorter.filter(move |shorter| (1..len).contains(shorter))
}

/// Returns lower offsets to try instead of `at`: 0, and the start of the unit that contains `at`.
pub fn lower(at: usize, unit: usize) -> impl Iterator<Item = usize> {
    [0, at / unit * unit].into_iter().filter(move |lower| *lower < at)
}

/// Returns `len` bytes of a random kind of [`Data`], which differ from the bytes of other calls.
pub fn data(rng: &mut Rng, len: usize) -> Vec<u8> {
    let stamp = rng.u64(..);
    Data::draw(&mut Choices::Seeded(rng.fork()), stamp).bytes(len)
}

/// Contents of the kinds that a device distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    Zeros,
    Byte(u8),
    /// Eight bytes that are repeated.
    Word(u64),
    /// Incompressible bytes.
    Noise(u64),
    /// Runs of equal bytes, up to the given length, each followed by four different bytes. The
    /// contents compress in part.
    Runs(u64, u16),
    /// Random sequences of four letters, which zstd compresses much better than lz4.
    Letters(u64),
    /// Pieces of the given length. Only the first sixteenth of a piece is random, so the pieces
    /// compress well.
    Pieces(u64, u16),
}

impl Data {
    /// Draws contents of any kind. Contents of different stamps differ, except zeros.
    pub fn draw(choices: &mut Choices, stamp: u64) -> Self {
        let size = 1 << choices.within(6..=9);
        match choices.below(9) {
            0 => Data::Zeros,
            1 => Data::Byte(stamp as u8),
            2 => Data::Word(choices.u64()),
            3 => Data::Noise(stamp),
            4..7 => Data::Runs(stamp, size),
            7 => Data::Letters(stamp),
            _ => Data::Pieces(stamp, size * 4),
        }
    }

    /// Returns simpler contents.
    pub fn simpler(self) -> Vec<Self> {
        match self {
            Data::Zeros => vec![],
            Data::Byte(_) => vec![Data::Zeros],
            Data::Word(word) => vec![Data::Zeros, Data::Byte(word as u8)],
            Data::Noise(stamp) => vec![Data::Zeros, Data::Byte(stamp as u8 | 1)],
            Data::Runs(stamp, _) | Data::Letters(stamp) | Data::Pieces(stamp, _) => {
                vec![Data::Zeros, Data::Byte(stamp as u8 | 1), Data::Noise(stamp)]
            }
        }
    }

    pub fn bytes(self, len: usize) -> Vec<u8> {
        match self {
            Data::Zeros => vec![0; len],
            Data::Byte(byte) => vec![byte; len],
            Data::Word(word) => word.to_ne_bytes().into_iter().cycle().take(len).collect(),
            Data::Noise(stamp) => stamped(stamp, len),
            Data::Runs(seed, most) => {
                let mut rng = Rng::with_seed(seed);
                let mut bytes = Vec::with_capacity(len + usize::from(most) + 4);
                while bytes.len() < len {
                    let run = rng.usize(1..=usize::from(most));
                    bytes.resize(bytes.len() + run, rng.u8(..));
                    bytes.extend(rng.u32(..).to_ne_bytes());
                }
                bytes.truncate(len);
                bytes
            }
            Data::Letters(stamp) => {
                let bytes = stamped(stamp, len).into_iter();
                bytes.map(|byte| b"acgt"[usize::from(byte >> 3 & 3)]).collect()
            }
            Data::Pieces(stamp, size) => {
                let mut bytes = stamped(stamp, len);
                for piece in bytes.chunks_mut(usize::from(size)) {
                    let noise = piece.len().min(usize::from(size) / 16);
                    piece[noise..].fill(7);
                }
                bytes
            }
        }
    }
}
