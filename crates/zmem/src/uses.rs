//! Changes the use of an arena's blocks: free, managed by the pager, or plain (part of a mapping of
//! the program).
//!
//! ```text
//!   Free -------> Managed: Untouched      Plain -> Managed: Resident
//!    ^ '-> Plain     |                      ^        |
//!    '---------------'  contents dropped    '--------'  filled
//! ```
//! Only one thread at a time changes the use of a block. During the change, other threads are
//! allowed to access and evict the block (zm-R2).

use crate::chunk_word::Chunk;
use crate::owned::own_first;
use crate::pager::Pager;
use crate::state::State;
use crate::{Error, chunk, compressor_thread, range_calls};
use std::ops::Range;

/// The use of an arena's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The blocks are not used. This crate does not handle faults on these blocks.
    Free,
    /// The blocks are readable and writable, and are evicted and filled like blocks of a region.
    Managed,
    /// The blocks belong to mappings of the program, which this crate does not access.
    Plain,
}

impl Use {
    /// Returns the use of a block in the state `state`. The block's chunk is open, and no thread
    /// owns the block.
    fn of(state: State) -> Self {
        match state {
            State::Free => Use::Free,
            State::Plain => Use::Plain,
            _ => Use::Managed,
        }
    }
}

/// Changes the use of blocks at the start of `blocks`. Needs no context, and stops before the first
/// chunk that must be opened. Returns the first block whose use was not changed.
pub(crate) fn set_use_of_closed(pager: &Pager, blocks: Range<usize>, to: Use) -> usize {
    let mut next = blocks.start;
    while next < blocks.end {
        let part = next..blocks.end.min(chunk::blocks_of(pager, next).end);
        let try_turn = |from, to| chunk::try_turn(pager, &part, from, to);
        let is_done = match (to, chunk::state(pager, next)) {
            (Use::Managed, Chunk::Untouched) | (Use::Free, Chunk::Vacant) => true,
            (Use::Managed, Chunk::Vacant) => try_turn(Chunk::Vacant, Chunk::Untouched),
            (Use::Free, Chunk::Untouched) => try_turn(Chunk::Untouched, Chunk::Vacant),
            _ => false,
        };
        if !is_done {
            break;
        }
        next = part.end;
    }
    next
}

/// Opens a chunk, and changes the use of blocks of this chunk. A block that becomes free loses its
/// contents. A free block that becomes managed or plain reads as zeros. Any other block keeps its
/// contents.
///
/// # Errors
/// [`Error::Locked`] if a block that should become plain has too many pins. After this error, the
/// blocks before that block have the new use.
pub(crate) fn set_use(
    pager: &Pager,
    blocks: Range<usize>,
    to: Use,
    buf: &mut [u8],
) -> Result<(), Error> {
    chunk::open(pager, blocks.start, |_| true);
    let mut next = blocks.start;
    while next < blocks.end {
        let seen = pager.words[next].load();
        let rest = next..blocks.end;
        next = match (seen.state(), Use::of(seen.state()), to) {
            (State::Busy, ..) => {
                compressor_thread::wait_for_block(pager, next, seen);
                next
            }
            (_, from, _) if from == to => next + 1,
            (state, Use::Managed, Use::Free) => free_managed(pager, rest, state),
            (_, Use::Managed, _) => make_plain(pager, rest, buf)?,
            (_, Use::Free, Use::Managed) => turn(pager, rest, State::Free, State::Untouched),
            (_, Use::Free, _) => turn(pager, rest, State::Free, State::Plain),
            (_, Use::Plain, Use::Managed) => turn(pager, rest, State::Plain, State::Resident),
            (_, Use::Plain, _) => turn(pager, rest, State::Plain, State::Free),
        };
    }
    Ok(())
}

/// Changes blocks at the start of `blocks` from the state `from` to the state `to`, and returns the
/// number of the block after them. At least one of the two states is `Free` or `Plain`.
fn turn(pager: &Pager, blocks: Range<usize>, from: State, to: State) -> usize {
    let mut own = own_first(pager, blocks, from, |_| true);
    let Range { start, end } = own.blocks();
    if own.is_empty() {
        return end;
    }
    if to == State::Plain && !chunk::is_open_around(pager, start) {
        // Another thread has closed the chunk, because all of the chunk's blocks were absent.
        own.release();
        chunk::open(pager, start, |_| true);
        return start;
    }
    match (from, to) {
        (State::Free, State::Plain) => own.fill_zeros(),
        (State::Plain, State::Free) => pager.expect("memory can't be marked", own.unmap()),
        (State::Plain, State::Resident) => {
            own.count(true);
            own.keep_pages_small();
        }
        _ => {}
    }
    own.publish(to, |_, word| word.with_heat(0));
    end
}

/// Frees the managed blocks at the start of `blocks` that are in the state `state`. Returns the
/// number of the block after the freed blocks.
fn free_managed(pager: &Pager, blocks: Range<usize>, state: State) -> usize {
    // Without this lock, the evicting thread could be reading these blocks (zm-S3).
    let _lock = pager.eviction_lock.lock();
    let own = own_first(pager, blocks, state, |_| true);
    let end = own.blocks().end;
    range_calls::drop_owned(pager, own, State::Free);
    end
}

/// Fills the managed blocks at the start of `blocks`, at most a batch, and makes these blocks
/// plain. Returns the number of the block after these blocks.
fn make_plain(pager: &Pager, blocks: Range<usize>, buf: &mut [u8]) -> Result<usize, Error> {
    let is_managed = |block: &usize| Use::of(pager.words[*block].load().state()) == Use::Managed;
    let own = blocks.clone().take(pager.batch()).take_while(is_managed).count();
    let own = blocks.start..blocks.start + own;
    // The pins keep the blocks resident until they are plain.
    range_calls::pin(pager, own.clone(), buf)?;
    // An evicting thread may have been reading these blocks in place until this thread got the lock
    // (zm-R5).
    drop(pager.eviction_lock.lock());
    for block in own.clone() {
        let owned = loop {
            let owned = own_first(pager, block..block + 1, State::Resident, |_| true);
            let seen = pager.words[block].load();
            match seen.state() {
                _ if !owned.is_empty() => break owned,
                State::Busy => compressor_thread::wait_for_block(pager, block, seen),
                _ => {}
            }
        };
        owned.publish(State::Plain, |_, word| word.with_heat(0));
    }
    pager.note_closing(&own);
    range_calls::unpin(pager, own.clone());
    Ok(own.end)
}

/// Zeroes managed blocks. Unpinned blocks become untouched, and pinned blocks stay resident.
pub(crate) fn zero_all(pager: &Pager, blocks: Range<usize>) {
    let mut from = blocks.start;
    while let Err(Error::Locked { at, .. }) = range_calls::dont_need(pager, from..blocks.end) {
        let block = at / pager.sizes.block;
        let own = own_first(pager, block..block + 1, State::Resident, |_| true);
        from = own.blocks().end;
        own.clear();
        own.release();
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

    /// A running eviction may read a block in place, so the block becomes plain only after this
    /// eviction.
    #[test]
    fn what_is_being_stored_is_plain_no_sooner_than_that_ends() {
        let memory = Managed::map(2 << 20, 2 << 20).unwrap();
        let pager = Pager::new(memory, Contents::Vacant, &Options::default()).unwrap();
        chunk::begin(&pager, Contents::Vacant);
        let change =
            |to| set_use(&pager, 0..2, to, pager.contexts.take(Purpose::Call).buffer()).unwrap();
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
