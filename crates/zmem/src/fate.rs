//! What became of blocks that were to be stored.

/// The result of storing a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stored,
    /// All zeros: nothing is stored.
    Zeros,
    /// The device refused it, or it did not get smaller: it stays resident.
    Kept,
}

/// The results for all blocks of a run, a bit for each: a run has `PIECE` blocks at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    zeros: u64,
    kept: u64,
}

impl Outcome {
    pub(crate) const ALL_KEPT: Self = Outcome { zeros: 0, kept: u64::MAX };

    pub(crate) fn of(&self, nth: usize) -> Fate {
        match (self.zeros >> nth & 1, self.kept >> nth & 1) {
            (1, _) => Fate::Zeros,
            (_, 1) => Fate::Kept,
            _ => Fate::Stored,
        }
    }

    pub(crate) fn set(&mut self, nth: usize, fate: Fate) {
        match fate {
            Fate::Zeros => self.zeros |= 1 << nth,
            Fate::Kept => self.kept |= 1 << nth,
            Fate::Stored => {}
        }
    }
}
