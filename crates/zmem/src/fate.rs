//! The result of storing blocks.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stored,
    /// The block is all zeros: no data are stored.
    Zeros,
    /// A copy of the block is queued for the compressor thread.
    Waiting,
    /// The block stays resident, because the device refused it or compression did not make it
    /// smaller.
    Kept,
}

/// The results for all blocks of a run. Each word has a bit for each block. A word has enough bits,
/// because a run has at most `CLOCK_WINDOW` blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    zeros: u64,
    waiting: u64,
    kept: u64,
}

impl Outcome {
    pub(crate) const ALL_KEPT: Self = Outcome { zeros: 0, waiting: 0, kept: u64::MAX };

    pub(crate) fn of(&self, nth: usize) -> Fate {
        match (self.zeros >> nth & 1, self.waiting >> nth & 1, self.kept >> nth & 1) {
            (1, _, _) => Fate::Zeros,
            (_, 1, _) => Fate::Waiting,
            (_, _, 1) => Fate::Kept,
            _ => Fate::Stored,
        }
    }

    pub(crate) fn set(&mut self, nth: usize, fate: Fate) {
        match fate {
            Fate::Zeros => self.zeros |= 1 << nth,
            Fate::Waiting => self.waiting |= 1 << nth,
            Fate::Kept => self.kept |= 1 << nth,
            Fate::Stored => {}
        }
    }

    /// Adds the results of a part of the run. The part begins at block `first` of the run.
    pub(crate) fn add(&mut self, of: Outcome, first: usize) {
        self.zeros |= of.zeros << first;
        self.waiting |= of.waiting << first;
        self.kept |= of.kept << first;
    }
}
