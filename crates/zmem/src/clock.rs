//! The hand of the clock, and the queue (first in, first out) of pieces with blocks in probation.

use crate::Error;
use crate::mappings::PROBATION_MAX;

#[derive(Debug)]
pub(crate) struct Evictor {
    /// The number of pieces of the region.
    pub(crate) pieces: usize,
    /// The piece that the clock looks at next.
    hand: usize,
    /// The number of pieces that the hand has not passed yet in the round that follows a round
    /// without an eviction.
    after_vain: usize,
    /// A ring buffer that contains `queued` pieces. The oldest piece is at the index `first`.
    queue: Box<[u32]>,
    first: usize,
    queued: usize,
    /// Whether evictions have ended for good.
    pub(crate) has_ended: bool,
}

/// The result of a step of the hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The piece to look at, or `None` if no open piece is left in this round.
    pub(crate) piece: Option<usize>,
    /// The number of pieces that the hand passed, including `piece`.
    pub(crate) passed: usize,
    pub(crate) is_round: bool,
    /// Whether the previous round evicted nothing.
    pub(crate) is_after_vain: bool,
}

impl Evictor {
    pub(crate) fn new(pieces: usize) -> Result<Self, Error> {
        let mut queue = Vec::new();
        let room = pieces.min(PROBATION_MAX);
        queue
            .try_reserve_exact(room)
            .map_err(|_| Error::System { what: "a queue of blocks", errno: libc::ENOMEM })?;
        queue.resize(room, 0);
        let queue = queue.into();
        Ok(Evictor { pieces, hand: 0, after_vain: 0, queue, first: 0, queued: 0, has_ended: false })
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

    /// Puts the piece that `pop` returned back at the front of the queue, because the piece still
    /// has blocks in probation.
    pub(crate) fn push_back(&mut self, piece: usize) {
        self.first = (self.first + self.queue.len() - 1) % self.queue.len();
        self.queue[self.first] = piece as u32;
        self.queued += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queued == self.queue.len()
    }

    /// Moves the hand past the next piece with an open chunk. `next` returns the first such piece
    /// at or after a given piece. A step never passes the end of a round. `is_vain` is true if the
    /// last round evicted nothing.
    pub(crate) fn step(
        &mut self,
        is_vain: bool,
        next: impl FnOnce(usize) -> Option<usize>,
    ) -> Step {
        let (from, piece) = (self.hand, next(self.hand));
        let end = piece.map_or(self.pieces, |piece| piece + 1);
        self.hand = end % self.pieces;
        let after_vain = if is_vain { self.pieces } else { self.after_vain };
        self.after_vain = after_vain.saturating_sub(end - from);
        let (is_round, is_after_vain) = (self.hand == 0, after_vain > 0);
        Step { piece, passed: end - from, is_round, is_after_vain }
    }
}
