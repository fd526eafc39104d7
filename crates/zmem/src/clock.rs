//! The clock's hand, and the queue of pieces with blocks in probation: first in, first out.

use crate::Error;
use crate::mappings::PROBATION_MAX;

/// The clock, and the queue of pieces with blocks in probation.
#[derive(Debug)]
pub(crate) struct Evictor {
    /// The number of pieces of the region.
    pub(crate) pieces: usize,
    /// Whether a fault evicts, which passes over what was brought last: see `recent`.
    pub(crate) spares_recent: bool,
    /// The piece that the clock looks at next.
    hand: usize,
    /// A ring of `queued` pieces, the oldest at `first`.
    queue: Box<[u32]>,
    first: usize,
    queued: usize,
}

impl Evictor {
    pub(crate) fn new(pieces: usize) -> Result<Self, Error> {
        let mut queue = Vec::new();
        let room = pieces.min(PROBATION_MAX);
        queue
            .try_reserve_exact(room)
            .map_err(|_| Error::System { what: "a queue of blocks", errno: libc::ENOMEM })?;
        queue.resize(room, 0);
        let (queue, spares_recent) = (queue.into(), false);
        Ok(Evictor { pieces, spares_recent, hand: 0, queue, first: 0, queued: 0 })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.queue)
    }

    /// Appends a piece to the queue, which must not be full.
    pub(crate) fn push(&mut self, piece: usize) {
        let at = (self.first + self.queued) % self.queue.len();
        self.queue[at] = piece as u32;
        self.queued += 1;
    }

    /// Takes the oldest piece out of the queue.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let piece = *self.queue.get(self.first)?;
        if self.queued == 0 {
            return None;
        }
        self.first = (self.first + 1) % self.queue.len();
        self.queued -= 1;
        Some(piece as usize)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queued == self.queue.len()
    }

    /// Moves the hand on. Returns the piece that it pointed to, and whether it has completed a
    /// round.
    pub(crate) fn step(&mut self) -> (usize, bool) {
        let piece = self.hand;
        self.hand = (self.hand + 1) % self.pieces;
        (piece, self.hand == 0)
    }
}
