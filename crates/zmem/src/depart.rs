//! Stores the data of blocks that were not accessed in probation, and drops the blocks' pages. The
//! caller of each function holds the eviction lock.

use crate::backend::Data;
use crate::compressor_thread;
use crate::counters::count;
use crate::memory::pages;
use crate::owned::{OwnedRun, for_evicting, for_runs};
use crate::pager::Pager;
use crate::policy::CLOCK_WINDOW;
use crate::state::{HEAT_MAX, State};
use crate::stored::{self, Fate, Outcome};
use std::cell::Cell;
use std::ops::Range;

/// Evicts a run of blocks in the state `Evicting`. The first blocks are queued for the compressor
/// thread until the queue is full. This thread stores the other blocks. Returns the number of
/// evicted blocks.
pub(crate) fn evict_run(pager: &Pager, run: Range<usize>, buf: &mut [u8]) -> usize {
    let (start, middle) =
        (run.start, run.start + compressor_thread::waiting_room(pager, run.len()));
    let mut gone = 0;
    if start < middle {
        gone += evict_part(pager, start..middle, buf, stored::defer);
        pager.compressor.ring();
    }
    if middle < run.end {
        gone += evict_part(pager, middle..run.end, buf, stored::store);
    }
    gone
}

/// Passes `Evicting` blocks to `store`, and drops their pages. Returns the number of evicted
/// blocks.
fn evict_part(
    pager: &Pager,
    run: Range<usize>,
    buf: &mut [u8],
    store: impl Fn(&Pager, Range<usize>, &[u8]) -> Outcome,
) -> usize {
    let bytes = pager.bytes_of(run.clone());
    let data = &mut buf[..bytes.len()];
    let (from, is_read) = copy(pager, run.clone(), data);
    let outcome = if is_read {
        store(pager, run.clone(), data)
    } else {
        count(&pager.counters.refused, run.len());
        [Fate::Kept; CLOCK_WINDOW]
    };
    let is_kept = |block: usize| outcome[block - run.start] == Fate::Kept;
    // For blocks that stay resident, data on the device are freed before this thread owns the
    // blocks. Freeing can be slow, because it may allocate memory, and other threads would wait for
    // owned blocks (zm-S4).
    let undone = Cell::new(0u64);
    for_runs(run.clone(), usize::MAX, is_kept, |part| {
        if !stored::discard(pager, part.clone()) {
            part.for_each(|block| undone.set(undone.get() | 1 << (block - run.start)));
        }
    });
    let (mut gone, mut ended) = (0, 0u64);
    let mut next = run.start;
    while next < run.end {
        let alike = |block: &usize| is_kept(*block) == is_kept(next);
        let part = next..next + (next..run.end).take_while(alike).count();
        for_evicting(pager, part.clone(), |own| {
            let Range { start, end } = own.blocks();
            own.blocks().for_each(|block| ended |= 1 << (block - run.start));
            if is_kept(start) {
                pager.expect("memory can't be opened again", own.reopen());
                let has_copy = |block: usize| undone.get() >> (block - run.start) & 1 == 1;
                return publish_kept(pager, own, has_copy);
            }
            let data = &data[pager.bytes_of(start - run.start..end - run.start)];
            let fate = |block: usize| outcome[block - run.start];
            if own.drop_pages(from).is_err() {
                return stay_stored(pager, own, data, fate);
            }
            gone += own.len();
            publish_gone(pager, own, data, fate);
        });
        next = part.end;
    }
    // Blocks that were accessed during the eviction are resident again. Their data on the device
    // are freed.
    let stolen = |block: &usize| ended >> (block - run.start) & 1 == 0;
    run.clone().filter(stolen).for_each(|block| {
        if !stored::discard(pager, block..block + 1) {
            stored::note_copies(pager, block..block + 1);
            pager.words[block].set_copy(true);
        }
    });
    gone
}

/// Copies `Evicting` blocks to `data`. Returns the location of the blocks' data after the copy, and
/// whether all blocks were copied.
fn copy(pager: &Pager, run: Range<usize>, data: &mut [u8]) -> (Data, bool) {
    let bytes = pager.bytes_of(run.clone());
    match pager.backend.read(&pager.memory, bytes.start, data) {
        Ok(()) => (Data::Closed, true),
        Err(_) => (Data::Shown, show_and_read(pager, run, data)),
    }
}

/// Makes `Evicting` blocks readable to all threads, and then copies the blocks. Used if the kernel
/// refuses to read protected memory. For a block that another thread has accessed, `data` holds
/// zeros. Returns whether all other blocks became readable.
fn show_and_read(pager: &Pager, run: Range<usize>, data: &mut [u8]) -> bool {
    data.fill(0);
    let mut are_shown = true;
    for_evicting(pager, run.clone(), |own| {
        let (is_shown, Range { start, end }) = (own.show().is_ok(), own.blocks());
        own.release();
        if is_shown {
            // The blocks stay readable during the copy. A fault only makes them writable, too, and
            // `dont_need` waits for the eviction lock.
            let to = pager.bytes_of(start - run.start..end - run.start);
            pages::read_open(&pager.memory, start * pager.sizes.block, &mut data[to]);
        }
        are_shown &= is_shown;
    });
    are_shown
}

/// Publishes or queues owned blocks whose pages were dropped, as `fate` requires for each block.
/// `data` are the blocks' contents.
pub(crate) fn publish_gone(
    pager: &Pager,
    mut own: OwnedRun<'_>,
    data: &[u8],
    fate: impl Fn(usize) -> Fate,
) {
    own.count(false);
    let (blocks, round, mut waiting) = (own.blocks(), pager.round(), 0);
    while let Some(first) = own.split_first() {
        let block = first.blocks().start;
        match fate(block) {
            Fate::Waiting => {
                first.queue(&data[pager.bytes_of(block - blocks.start..block - blocks.start + 1)]);
                waiting += 1;
            }
            Fate::Zeros => {
                count(&pager.counters.zeros, 1);
                first.publish(State::Untouched, |_, word| word.with_heat(0));
            }
            _ => first.publish(State::Evicted, |_, word| word.with_heat(round).with_copy(false)),
        }
    }
    count(&pager.counters.evicted, blocks.len() - waiting);
}

/// Makes blocks resident again after the kernel refused to drop their pages, because the program
/// has locked the blocks. `data` are the blocks' contents.
pub(crate) fn stay_stored(
    pager: &Pager,
    own: OwnedRun<'_>,
    data: &[u8],
    fate: impl Fn(usize) -> Fate,
) {
    own.put_back(data);
    count(&pager.counters.refused, own.len());
    stored::note_copies(pager, own.blocks());
    own.publish(State::Resident, |block, word| {
        let has_copy = word.has_copy() || fate(block) == Fate::Stored;
        word.with_heat(HEAT_MAX).with_copy(has_copy)
    });
}

/// Publishes accessible blocks as resident, because the device refused the blocks or the blocks did
/// not compress.
pub(crate) fn publish_kept(pager: &Pager, own: OwnedRun<'_>, has_copy: impl Fn(usize) -> bool) {
    if own.blocks().any(&has_copy) {
        stored::note_copies(pager, own.blocks());
    }
    own.publish(State::Resident, |block, word| word.with_heat(HEAT_MAX).with_copy(has_copy(block)));
}
