//! Fills blocks for a faulting thread or for a call.

use crate::chunk_word::Chunk;
use crate::counters::count;
use crate::error::fatal;
use crate::limit::evictable;
use crate::owned::{OwnedRun, own_block};
use crate::pager::Pager;
use crate::policy::{HEAT_KEPT_MAX, RESIDENT_FAULTS_MAX, SOON_ROUNDS, UNMANAGED_FAULTS_MAX};
use crate::recent::{Side, Toucher, Wanted};
use crate::state::{HEAT_MAX, State, WordValue};
use crate::{chunk, compressor_thread, room, stored};
use std::ops::Range;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The block became resident, so the faulting instruction is repeated.
    Answered,
    /// The block was already resident, or is not managed. Another thread may have filled the block,
    /// so the instruction is repeated. If the instruction faults more than `most` times in a row,
    /// the fault is the program's own. `closings` is the result of `Pager::closings` before the
    /// fault was handled.
    Unchanged { closings: u32, most: u32 },
}

/// Handles a fault of the thread `toucher` at `address`. `buf` is the buffer of a `HandlerContext`.
pub(crate) fn handle(pager: &Pager, address: usize, toucher: Toucher, buf: &mut [u8]) -> Verdict {
    let began = Instant::now();
    let Some(offset) = pager.memory.offset_of(address) else {
        return Verdict::Unchanged { closings: 0, most: UNMANAGED_FAULTS_MAX };
    };
    let block = offset / pager.sizes.block;
    let closings = pager.closings(block);
    let brought = bring(pager, block, wanted(pager, toucher, block), buf);
    if brought.is_empty() {
        if !is_managed(pager, block) {
            return Verdict::Unchanged { closings, most: UNMANAGED_FAULTS_MAX };
        }
        fill_hole(pager, block, offset);
        return Verdict::Unchanged { closings, most: RESIDENT_FAULTS_MAX };
    }
    pager.order.note(toucher, &brought);
    if pager.makes_room_itself() {
        pager.recent.note(block);
    }
    pager.counters.times.add(began.elapsed());
    Verdict::Answered
}

/// Returns which blocks a fault should fill. If the block is untouched and much memory is free, the
/// fault should open a whole batch, because unwritten blocks use no memory. If the block is
/// directly before or after the blocks that the thread's last fault filled, the fault should fill
/// twice as many blocks.
pub(crate) fn wanted(pager: &Pager, toucher: Toucher, block: usize) -> Wanted {
    let is_new = pager.words[block].load().state() == State::Untouched;
    if is_new && pager.makes_room_itself() && evictable::has_room(&pager.limit) {
        return Wanted { most: pager.batch(), side: Side::Both };
    }
    let wanted = pager.order.wanted(toucher, block).unwrap_or(Wanted::from_it_on(1));
    Wanted { most: wanted.most.min(pager.batch()), ..wanted }
}

/// Fills a missing page of a resident block with zeros. The program never wrote this page before
/// the region took over the memory (zm-U3). During the fill, this thread owns or pins the block, so
/// no other thread closes the block.
fn fill_hole(pager: &Pager, block: usize, offset: usize) {
    let page = page::page_size();
    let start = offset / page * page;
    let Some(uffd) = pager.backend.uffd() else { return };
    let fill_holes = || uffd.fill_holes(&pager.memory, start..start + page);
    let fill = || pager.expect("a page can't be filled", fill_holes());
    let (word, seen) = (&pager.words[block], pager.words[block].load());
    if seen.is_kept() && word.try_pin(seen) {
        fill();
        word.unpin();
    } else if seen.is_evictable()
        && let Some(own) = own_block(pager, block, seen)
    {
        fill();
        own.release();
    }
}

/// Makes a block resident. Neighbours in the same state also become resident, as `wanted`
/// specifies. Returns the blocks that became resident, or an empty range if the block was resident
/// or is not managed.
pub(crate) fn bring(pager: &Pager, block: usize, wanted: Wanted, buf: &mut [u8]) -> Range<usize> {
    loop {
        let seen = pager.words[block].load();
        let brought = match seen.state() {
            State::Resident | State::Free | State::Plain => return block..block,
            State::Busy if compressor_thread::take_back(pager, block) => block..block + 1,
            State::Busy => {
                count(&pager.counters.waits, 1);
                compressor_thread::wait_for_block(pager, block, seen);
                continue;
            }
            State::Probation | State::Evicting => keep(pager, block, seen),
            State::Shared => {
                room::make_room(pager, 0, buf);
                chunk::unshare(pager, chunk::group_of(pager, block));
                match pager.words[block].load().state() {
                    State::Resident => block..block + 1,
                    _ => block..block,
                }
            }
            State::Untouched if chunk::is_vacant(pager, block) => return block..block,
            state @ (State::Untouched | State::Evicted) => {
                room::make_room(pager, wanted.most, buf);
                match own_counted(pager, block, seen, wanted) {
                    Some(own) if state == State::Untouched => first_touch(pager, own),
                    Some(own) => fill(pager, block, own, buf),
                    None => block..block,
                }
            }
        };
        if !brought.is_empty() {
            return brought;
        }
    }
}

/// Takes ownership of an absent block if the block's word is still `seen`. Then also takes
/// neighbouring blocks in the same state and chunk, as `wanted` specifies. Returns the owned
/// blocks, whose chunk is open.
fn own(pager: &Pager, block: usize, seen: WordValue, wanted: Wanted) -> Option<OwnedRun<'_>> {
    chunk::open(pager, block, |seen| seen != Chunk::Vacant);
    let mut own = own_block(pager, block, seen)?;
    // Another thread may have closed the chunk again, because all of its blocks were absent.
    if !chunk::is_open_around(pager, block) {
        own.release();
        return None;
    }
    let chunk = chunk::blocks_of(pager, block);
    let behind = if wanted.side == Side::Before { 1 } else { wanted.most };
    own.grow_behind(chunk.end.min(block.saturating_add(behind)));
    let before = if wanted.side == Side::Behind { 0 } else { wanted.most - own.len() };
    own.grow_before(chunk.start.max(block.saturating_sub(before)));
    Some(own)
}

/// Counts blocks as resident and then takes ownership of them, as `own` does. Because the blocks
/// are counted first, simultaneous faults do not exceed the limit together.
fn own_counted(
    pager: &Pager,
    block: usize,
    seen: WordValue,
    wanted: Wanted,
) -> Option<OwnedRun<'_>> {
    let claimed = pager.limit.claim(wanted.most);
    let mut own = own(pager, block, seen, Wanted { most: claimed, ..wanted });
    pager.limit.settle(claimed, own.as_ref().map_or(0, OwnedRun::len));
    own.iter_mut().for_each(OwnedRun::set_counted);
    own
}

/// Opens a block in probation, or a block that is being stored. Returns the opened block, or an
/// empty range if the block's word is no longer `seen`.
fn keep(pager: &Pager, block: usize, seen: WordValue) -> Range<usize> {
    let Some(own) = own_block(pager, block, seen) else { return block..block };
    pager.expect("memory can't be opened again", own.reopen());
    let is_kept = seen.state() == State::Probation;
    count(if is_kept { &pager.counters.kept } else { &pager.counters.stolen }, 1);
    own.publish(State::Resident, |_, word| word.with_heat((word.heat() + 1).min(HEAT_KEPT_MAX)));
    block..block + 1
}

/// Makes untouched blocks resident, and returns them.
fn first_touch(pager: &Pager, own: OwnedRun<'_>) -> Range<usize> {
    own.fill_zeros();
    let blocks = own.blocks();
    count(&pager.counters.first_touches, blocks.len());
    own.publish(State::Resident, |_, word| word.with_heat(0));
    blocks
}

/// Fills evicted blocks from the device, and returns these blocks. If this thread is the only
/// running thread of the process, it decompresses in place, otherwise to `buf`. `touched` is the
/// block that was accessed.
fn fill(pager: &Pager, touched: usize, own: OwnedRun<'_>, buf: &mut [u8]) -> Range<usize> {
    let (blocks, bytes) = (own.blocks(), pager.bytes_of(own.blocks()));
    match pager.try_stop_world() {
        Some(stopped) => {
            own.fill_in_place(&stopped, |place| read_back(pager, bytes.start, place));
            count(&pager.counters.in_place, blocks.len());
        }
        None => {
            let data = &mut buf[..bytes.len()];
            read_back(pager, bytes.start, data);
            own.fill(data);
        }
    }
    count(&pager.counters.filled, blocks.len());
    count(&pager.counters.ahead, blocks.len() - 1);
    stored::note_copies(pager, blocks.clone());
    let now = pager.round();
    let rounds = |word: WordValue| now.wrapping_sub(word.heat()) & HEAT_MAX;
    for word in &pager.words[blocks.clone()] {
        let rounds = rounds(word.load());
        count(&pager.counters.distances[rounds as usize], 1);
        count(&pager.counters.refaults, (rounds <= SOON_ROUNDS).into());
    }
    own.publish(State::Resident, |block, word| {
        let is_hot = rounds(word) <= SOON_ROUNDS && block == touched;
        word.with_heat(if is_hot { HEAT_KEPT_MAX } else { 0 }).with_copy(true)
    });
    blocks
}

/// Reads `data` from the device's offset `at`. Aborts the process if the device fails.
fn read_back(pager: &Pager, at: usize, data: &mut [u8]) {
    if let Err(error) = pager.device.read(at as u64, data) {
        fatal("a block can't be brought back", &error);
    }
}

pub(crate) fn is_managed(pager: &Pager, block: usize) -> bool {
    let state = pager.words[block].load().state();
    match state {
        State::Free | State::Plain => false,
        State::Untouched => !chunk::is_vacant(pager, block),
        _ => true,
    }
}
