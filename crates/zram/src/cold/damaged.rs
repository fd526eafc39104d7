//! Data that a job finds damaged, and leaves.

use crate::Error;

/// How many objects are damaged, and which came first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DamagedLeft {
    /// Objects of slots or blocks.
    pub count: u64,
    /// The slot of the first one; of a block its first.
    pub first: Option<u64>,
}

impl DamagedLeft {
    /// Takes note of one, if that is what an error says; else the job ends with it.
    pub(super) fn note(&mut self, error: Error, slot: u32) -> Result<(), Error> {
        if !error.is_damage() {
            return Err(error);
        }
        self.count += 1;
        self.first.get_or_insert(slot.into());
        Ok(())
    }

    /// Those of two jobs.
    pub(super) fn and(self, other: Self) -> Self {
        DamagedLeft { count: self.count + other.count, first: self.first.or(other.first) }
    }

    /// The error that it is, for who wants all of it done.
    ///
    /// # Errors
    /// [`Error::Left`]
    pub fn to_result(self) -> Result<(), Error> {
        match self.first {
            Some(slot) => Err(Error::Left { count: self.count, slot }),
            None => Ok(()),
        }
    }
}
