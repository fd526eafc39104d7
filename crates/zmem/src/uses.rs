//! The uses of an arena's blocks: some blocks are managed, others are the program's own mappings.
//!
//! ```text
//!   Free -------> Managed: Untouched      Plain -> Managed: Resident
//!    ^ '-> Plain     |                      ^        |
//!    '---------------'  contents dropped    '--------'  filled
//! ```
//! Only one caller at a time changes the use of a block, just as a program maps and unmaps a range.
//! Accesses and evictions may happen at the same time (zm-R2).

use crate::Error;
use crate::owned::own_first;
use crate::pager::Pager;
use crate::state::State;
use std::ops::Range;

/// The use of an arena's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// No use: an access faults, which is an error of the program.
    Free,
    /// The blocks are readable and writable, and are evicted and filled like those of a region.
    Managed,
    /// The blocks are mappings of the program that are not managed.
    Plain,
}

impl Use {
    /// Returns the use of a block in this state, if no thread owns the block and its chunk is open.
    fn of(state: State) -> Self {
        match state {
            State::Free => Use::Free,
            State::Plain => Use::Plain,
            _ => Use::Managed,
        }
    }
}

impl Pager {
    /// Returns whether a block is managed.
    pub(crate) fn is_managed(&self, block: usize) -> bool {
        let state = self.words[block].load().state();
        Use::of(state) == Use::Managed && !(state == State::Untouched && self.is_vacant(block))
    }

    /// Changes the use of blocks of one chunk. Blocks that become free lose their contents, free
    /// blocks become zeros, and all other blocks keep their contents.
    ///
    /// # Errors
    /// [`Error::Locked`]: a block that is to be plain has too many pins. The blocks before it were
    /// changed.
    pub(crate) fn set_use(
        &self,
        blocks: Range<usize>,
        to: Use,
        buf: &mut [u8],
    ) -> Result<(), Error> {
        match to {
            Use::Managed if self.try_turn_chunk(&blocks, true) => return Ok(()),
            Use::Free if self.is_vacant(blocks.start) => return Ok(()),
            Use::Free if self.try_turn_chunk(&blocks, false) => return Ok(()),
            _ => {}
        }
        self.open_any_chunk(blocks.start);
        self.set_use_in_chunk(blocks, to, buf)
    }

    /// Changes the use of blocks of one chunk that is open: see [`set_use`](Self::set_use).
    fn set_use_in_chunk(&self, blocks: Range<usize>, to: Use, buf: &mut [u8]) -> Result<(), Error> {
        let mut next = blocks.start;
        while next < blocks.end {
            let seen = self.words[next].load();
            let rest = next..blocks.end;
            next = match (seen.state(), Use::of(seen.state()), to) {
                (State::Busy, ..) => {
                    self.wait_for_block(next, seen);
                    next
                }
                (_, from, _) if from == to => next + 1,
                (state, Use::Managed, Use::Free) => self.free_managed(rest, state),
                (_, Use::Managed, _) => self.make_plain(rest, buf)?,
                (_, Use::Free, Use::Managed) => self.turn(rest, State::Free, State::Untouched),
                (_, Use::Free, _) => self.turn(rest, State::Free, State::Plain),
                (_, Use::Plain, Use::Managed) => self.turn(rest, State::Plain, State::Resident),
                (_, Use::Plain, _) => self.turn(rest, State::Plain, State::Free),
            };
        }
        Ok(())
    }

    /// Changes the first blocks of `blocks` from the state `from` to the state `to`, one of which
    /// is an unmanaged state. Returns the number of the block after the changed blocks.
    fn turn(&self, blocks: Range<usize>, from: State, to: State) -> usize {
        let mut own = own_first(self, blocks, from, |_| true);
        let Range { start, end } = own.blocks();
        if own.is_empty() {
            return end;
        }
        if to == State::Plain && !self.is_open_around(start) {
            // The chunk was closed, because all of its blocks were absent.
            own.release();
            self.open_any_chunk(start);
            return start;
        }
        match (from, to) {
            (State::Free, State::Plain) => own.fill_zeros(),
            (State::Plain, State::Free) => self.expect("memory can't be marked", own.unmap()),
            (State::Plain, State::Resident) => {
                own.count(true);
                own.keep_pages_small();
            }
            _ => {}
        }
        own.publish(to, |_, word| word.with_heat(0));
        end
    }

    /// Frees the first blocks of `blocks`, which are managed and in the same state. Returns the
    /// number of the block after the freed blocks.
    fn free_managed(&self, blocks: Range<usize>, state: State) -> usize {
        // The eviction lock is held, because otherwise the evicting thread could be reading these
        // blocks (zm-S3).
        let _lock = self.eviction_lock.lock();
        let own = own_first(self, blocks, state, |_| true);
        let end = own.blocks().end;
        self.drop_owned(own, State::Free);
        end
    }

    /// Fills the first blocks of `blocks`, and makes them plain. Returns the block after them.
    fn make_plain(&self, blocks: Range<usize>, buf: &mut [u8]) -> Result<usize, Error> {
        let is_managed = |block: &usize| Use::of(self.words[*block].load().state()) == Use::Managed;
        let own = blocks.clone().take(self.batch()).take_while(is_managed).count();
        let own = blocks.start..blocks.start + own;
        // The pins keep the blocks resident until they are plain.
        self.pin(own.clone(), buf)?;
        // Until the lock was taken, a thread that stores blocks may have been reading these blocks
        // in place (zm-R5).
        drop(self.eviction_lock.lock());
        for block in own.clone() {
            let owned = loop {
                let owned = own_first(self, block..block + 1, State::Resident, |_| true);
                let seen = self.words[block].load();
                match seen.state() {
                    _ if !owned.is_empty() => break owned,
                    State::Busy => self.wait_for_block(block, seen),
                    _ => {}
                }
            };
            owned.publish(State::Plain, |_, word| word.with_heat(0));
        }
        self.note_closing(&own);
        self.unpin(own.clone());
        Ok(own.end)
    }

    /// Zeroes managed blocks. Pinned blocks stay resident.
    pub(crate) fn zero_all(&self, blocks: Range<usize>) {
        let mut from = blocks.start;
        while let Err(Error::Locked { at, .. }) = self.dont_need(from..blocks.end) {
            let block = at / self.sizes.block;
            let own = own_first(self, block..block + 1, State::Resident, |_| true);
            from = own.blocks().end;
            own.clear();
            own.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::contexts::Purpose;
    use crate::memory::Managed;
    use crate::pager::Contents;
    use std::thread;
    use std::time::Duration;

    /// The thread that stores blocks may read them in place if the system permits no other way.
    #[test]
    fn what_is_being_stored_is_plain_no_sooner_than_that_ends() {
        let memory = Managed::map(2 << 20, 2 << 20).unwrap();
        let pager = Pager::new(memory, Contents::Vacant, &Options::default()).unwrap();
        let change = |to| pager.set_use(0..2, to, &mut pager.contexts.take(Purpose::Call)).unwrap();
        change(Use::Managed);
        thread::scope(|scope| {
            let clock = pager.eviction_lock.lock();
            let changes = scope.spawn(|| change(Use::Plain));
            testkit::wait::until("it is pinned", || pager.words[1].load().pins() > 0);
            thread::sleep(Duration::from_millis(20));
            assert_eq!(pager.words[0].load().state(), State::Resident);
            drop(clock);
            changes.join().unwrap();
        });
        assert_eq!(pager.words[0].load().state(), State::Plain);
    }
}
