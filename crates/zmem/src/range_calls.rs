//! Operations on ranges of blocks, for calls from outside of signal handlers.

use crate::backend::{Data, ForkResult};
use crate::limit::evictable;
use crate::owned::{OwnedRun, own_first};
use crate::pager::Pager;
use crate::policy::{CLOCK_WINDOW, HEAT_KEPT_MAX};
use crate::recent::Wanted;
use crate::state::{PINS_MAX, State, WordValue};
use crate::{Error, chunk, compressor_thread, fault, stored};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) fn prefetch(pager: &Pager, blocks: Range<usize>, buf: &mut [u8]) {
    let mut next = blocks.start;
    while next < blocks.end {
        let wanted = Wanted::from_it_on(pager.batch().min(blocks.end - next));
        next = fault::bring(pager, next, wanted, buf).end.max(next + 1);
    }
}

/// Fills blocks, and sets their heat, so that the clock skips them for some rounds.
pub(crate) fn heat(pager: &Pager, blocks: Range<usize>, buf: &mut [u8]) {
    prefetch(pager, blocks.clone(), buf);
    for word in &pager.words[blocks] {
        let _gone = word.try_change(word.load(), |seen| seen.with_heat(HEAT_KEPT_MAX));
    }
}

/// Makes blocks resident, and pins them until `unpin`. If a block can't be pinned, unpins the
/// blocks before it.
pub(crate) fn pin(pager: &Pager, blocks: Range<usize>, buf: &mut [u8]) -> Result<(), Error> {
    for block in blocks.clone() {
        loop {
            let seen = pager.words[block].load();
            if seen.pins() == PINS_MAX {
                unpin(pager, blocks.start..block);
                return Err(locked(pager, block));
            }
            let may_pin = match seen.state() {
                State::Resident | State::Free | State::Plain => true,
                State::Untouched => chunk::is_vacant(pager, block),
                _ => false,
            };
            if may_pin && pager.words[block].try_pin(seen) {
                break;
            }
            if !may_pin {
                let wanted = pager.batch().min(blocks.end - block);
                fault::bring(pager, block, Wanted::from_it_on(wanted), buf);
            }
        }
    }
    Ok(())
}

/// Pins blocks if all of them are resident or plain. Returns whether the blocks were pinned. Does
/// not wait.
pub(crate) fn try_pin(pager: &Pager, blocks: Range<usize>) -> bool {
    let is_pinned = |block: &usize| {
        let seen = pager.words[*block].load();
        matches!(seen.state(), State::Resident | State::Plain) && pager.words[*block].try_pin(seen)
    };
    let end = blocks.clone().find(|block| !is_pinned(block));
    if let Some(end) = end {
        unpin(pager, blocks.start..end);
    }
    end.is_none()
}

/// Removes one pin from each block.
pub(crate) fn unpin(pager: &Pager, blocks: Range<usize>) {
    pager.words[blocks].iter().for_each(|word| word.unpin());
}

fn locked(pager: &Pager, block: usize) -> Error {
    let Range { start, end } = pager.bytes_of(block..block + 1);
    Error::Locked { at: start, end }
}

/// Returns an error if one of `blocks` is pinned.
pub(crate) fn check_unpinned(pager: &Pager, blocks: Range<usize>) -> Result<(), Error> {
    if pager.backend.fork_result() == ForkResult::Plain {
        return Ok(());
    }
    // A pinned block is resident, so its chunk is open (zm-C2).
    let windows = chunk::open_windows(pager, blocks.start / CLOCK_WINDOW);
    let mut pinned = windows
        .take_while(|window| window * CLOCK_WINDOW < blocks.end)
        .flat_map(|window| pager.blocks_of_window(window))
        .filter(|block| blocks.contains(block) && pager.words[*block].load().is_kept());
    pinned.next().map_or(Ok(()), |block| Err(locked(pager, block)))
}

/// Zeroes blocks, and frees their memory. After an error, some of the blocks may have been zeroed.
pub(crate) fn dont_need(pager: &Pager, blocks: Range<usize>) -> Result<(), Error> {
    if pager.backend.fork_result() == ForkResult::Plain {
        pager.expect("memory can't be freed", pager.memory.drop_pages(pager.bytes_of(blocks)));
        return Ok(());
    }
    let (mut next, mut has_dropped) = (blocks.start, false);
    while next < blocks.end {
        let seen = pager.words[next].load();
        match seen.state() {
            State::Untouched | State::Free | State::Plain => next += 1,
            State::Busy => compressor_thread::wait_for_block(pager, next, seen),
            _ if seen.is_kept() => return Err(locked(pager, next)),
            state => {
                // The evicting thread may read these blocks until it releases the eviction lock
                // (zm-S3).
                let _clock = pager.eviction_lock.lock();
                let may_go = |seen: WordValue| state != State::Resident || seen.pins() == 0;
                let own = own_first(pager, next..blocks.end, state, may_go);
                (next, has_dropped) = (own.blocks().end, true);
                drop_owned(pager, own, State::Untouched);
            }
        }
    }
    if has_dropped {
        let _clock = pager.eviction_lock.lock();
        chunk::close_chunks(pager, blocks);
    }
    Ok(())
}

/// Drops the contents of blocks, and publishes the blocks with the state `next`, which is
/// `Untouched` or `Free`. The caller holds the eviction lock.
pub(crate) fn drop_owned(pager: &Pager, own: OwnedRun<'_>, mut next: State) {
    if own.is_empty() {
        return;
    }
    let state = own.from();
    match state {
        // The data of these blocks on the device become copies, which no thread reads.
        State::Evicted => stored::note_copies(pager, own.blocks()),
        State::Untouched => {}
        _ => {
            let from = if state == State::Resident { Data::Open } else { Data::Closed };
            match own.drop_pages(from) {
                Ok(()) => {}
                Err(_) if next == State::Free => {
                    let _unlocked = own.unlock();
                    pager.expect("memory can't be freed", own.drop_pages(from));
                }
                // The program has locked the blocks, so the kernel did not drop their pages.
                Err(_) => {
                    own.put_zeros();
                    next = State::Resident;
                }
            }
        }
    }
    own.publish(next, |_, word| {
        let has_copy = word.has_copy() || state == State::Evicted;
        word.with_heat(0).with_copy(has_copy)
    });
}

/// Asserts that the pager's counters and device agree with the states of all blocks. No thread of
/// the program accesses the memory during the call.
pub(crate) fn check(pager: &Pager) {
    // The locks prevent the pager thread from evicting and packing during the check.
    let locks = (pager.eviction_lock.lock(), pager.packing.lock());
    for (block, word) in pager.words.iter().enumerate() {
        // A `Busy` block is queued, or the compressor thread is storing it.
        while word.load().state() == State::Busy && pager.compressor.bytes() > 0 {
            compressor_thread::wait_for_block(pager, block, word.load());
        }
    }
    let states =
        |wanted: State| pager.words.iter().filter(|word| word.load().state() == wanted).count();
    assert_eq!((states(State::Busy), states(State::Evicting)), (0, 0), "owned by no one");
    chunk::check(pager);
    let (probation, shared) = (states(State::Probation), states(State::Shared));
    assert_eq!(pager.probation.load(Relaxed), probation, "in probation");
    assert_eq!(evictable::shared_blocks(&pager.limit), shared, "shared");
    let resident = states(State::Resident);
    assert_eq!(pager.limit.resident(), probation + shared + resident, "resident");
    let has_live = |block: usize| pager.words[block].load().state() == State::Evicted;
    let slots = pager.sizes.block / zram::SLOT_BYTES;
    for state in pager.device.block_state() {
        let block = state.index as usize / slots;
        assert!(has_live(block) || pager.words[block].load().has_copy(), "block {block} is stored");
    }
    pager.device.check();
    drop(locks);
}
