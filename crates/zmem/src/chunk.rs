//! Chunks: large ranges of memory, each of which is PROT_NONE until one of its blocks is first
//! touched. Until then a chunk needs no page tables. The first touch opens the chunk, and each
//! block of an open chunk has a mark of its own. The chunk is closed again when all of its blocks
//! are absent. A chunk of an arena is vacant at first, that is, closed, with all of its blocks
//! free.

use crate::chunk_word::{Chunk, ChunkWord};
use crate::gate::GATE;
use crate::limit::evictable;
use crate::mappings;
use crate::memory::table_reach;
use crate::owned::for_owned;
use crate::pager::{Contents, Pager};
use crate::policy::CLOCK_WINDOW;
use crate::state::{BlockWord, State};
use page::page_size;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

fn chunk_of(pager: &Pager, block: usize) -> usize {
    block * pager.sizes.block / pager.mappings.chunk_bytes
}

fn bytes_of(pager: &Pager, nth: usize) -> Range<usize> {
    let start = nth * pager.mappings.chunk_bytes;
    pager.memory.in_window(start..start + pager.mappings.chunk_bytes)
}

/// Returns all blocks of the chunk that contains `block`.
pub(crate) fn blocks_of(pager: &Pager, block: usize) -> Range<usize> {
    blocks_in(pager, chunk_of(pager, block))
}

fn blocks_in(pager: &Pager, nth: usize) -> Range<usize> {
    let Range { start, end } = bytes_of(pager, nth);
    start / pager.sizes.block..end / pager.sizes.block
}

/// Returns whether the chunk that contains `block` is open. The caller has just become the block's
/// owner.
pub(crate) fn is_open_around(pager: &Pager, block: usize) -> bool {
    pager.chunks[chunk_of(pager, block)].is_open_for_owner()
}

/// Returns the state of the chunk that contains `block`.
pub(crate) fn state(pager: &Pager, block: usize) -> Chunk {
    pager.chunks[chunk_of(pager, block)].load()
}

pub(crate) fn is_vacant(pager: &Pager, block: usize) -> bool {
    state(pager, block) == Chunk::Vacant
}

/// Changes a chunk from the state `from` to the state `to`: from `Vacant` to `Untouched`, or from
/// `Untouched` to `Vacant`. Returns true if `blocks` is exactly one chunk and the chunk was
/// changed. Otherwise changes nothing.
pub(crate) fn try_turn(pager: &Pager, blocks: &Range<usize>, from: Chunk, to: Chunk) -> bool {
    let nth = chunk_of(pager, blocks.start);
    let is_whole = pager.bytes_of(blocks.clone()) == bytes_of(pager, nth);
    let is_ours = is_whole && pager.chunks[nth].try_begin(from);
    if is_ours {
        pager.chunks[nth].end(to);
    }
    is_ours
}

/// Opens the chunk that contains `block` if `may_open` returns true for the chunk's state. All
/// blocks of a vacant chunk become free. If another thread is changing the chunk, this function
/// waits, so the caller must own no block (zm-S4).
pub(crate) fn open(pager: &Pager, block: usize, may_open: impl Fn(Chunk) -> bool) {
    let nth = chunk_of(pager, block);
    let (word, bytes) = (&pager.chunks[nth], bytes_of(pager, nth));
    loop {
        match word.load() {
            Chunk::Open => return,
            Chunk::Changing => {
                GATE.wait_for_owner(|| word.load() != Chunk::Changing, || word.wait())
            }
            seen if !may_open(seen) => return,
            seen if word.try_begin(seen) => {
                pager.limit.add_tables(tables_to_open(pager, nth, seen));
                if seen == Chunk::Vacant {
                    pager.words[blocks_in(pager, nth)].iter().for_each(BlockWord::begin_free);
                }
                let open = |_| pager.backend.open_chunk(&pager.memory, bytes.clone());
                // The kernel refuses guards on memory that the program locked, for example by
                // `mlockall`.
                let opened = open(()).or_else(|_| {
                    pager.memory.unlock(bytes.clone())?;
                    open(())
                });
                pager.expect("memory can't be marked", opened);
                word.end(Chunk::Open);
            }
            _ => {}
        }
    }
}

/// Returns the blocks that an access to the shared block `block` opens. These are the block's
/// group, or all blocks of its chunk if no other process shares blocks any more.
pub(crate) fn group_of(pager: &Pager, block: usize) -> Range<usize> {
    let (group, chunk) = (pager.group.load(Relaxed), blocks_of(pager, block));
    if !evictable::is_sharing(&pager.limit) {
        return chunk;
    }
    let start = chunk.start + (block - chunk.start) / group * group;
    start..chunk.end.min(start + group)
}

/// Opens the shared blocks among `blocks`. These blocks become resident, and no longer count as
/// shared.
pub(crate) fn unshare(pager: &Pager, blocks: Range<usize>) {
    let takes = |_, _| true;
    for_owned(pager, blocks, State::Shared, takes, |mut run| {
        if run.reopen().is_err() {
            // The kernel may refuse to split a mapping. Opening all adjacent shared blocks at once
            // splits no mapping.
            run.grow_before(0);
            run.grow_behind(pager.blocks());
            pager.expect("memory can't be opened again", run.reopen());
        }
        run.publish(State::Resident, |_, word| word);
    });
}

/// Returns the size in bytes of the page tables and the blocks' words that are allocated when a
/// chunk in the state `from` is opened.
fn tables_to_open(pager: &Pager, nth: usize, from: Chunk) -> usize {
    match from {
        Chunk::Untouched | Chunk::Vacant => {
            let (reached, _) = tables_of(pager, nth);
            reached * page_size() * pager.backend.places() + words_to_open(pager, nth)
        }
        Chunk::Freed => tables_that_go(pager, nth),
        _ => 0,
    }
}

/// Returns the size in bytes of the page tables that are freed when a chunk is closed.
fn tables_that_go(pager: &Pager, nth: usize) -> usize {
    let (_, own) = tables_of(pager, nth);
    own * page_size() * pager.backend.places()
}

/// Returns the number of page tables that map pages of the chunk, and the number of page tables
/// that map only pages of the chunk.
fn tables_of(pager: &Pager, nth: usize) -> (usize, usize) {
    let (bytes, reach) = (bytes_of(pager, nth), table_reach());
    let start = pager.memory.address_of(&bytes);
    let end = start + bytes.len();
    let reached = end.div_ceil(reach) - start / reach;
    (reached, (end / reach).saturating_sub(start.div_ceil(reach)))
}

/// Returns the size in bytes of the memory that is allocated for blocks' words when a chunk is
/// first touched. If a page of words belongs to several chunks, the page is charged to the chunk
/// that is opened first.
fn words_to_open(pager: &Pager, nth: usize) -> usize {
    let bytes = pager.mappings.chunk_bytes / pager.sizes.block * size_of::<BlockWord>();
    let alike = page_size() / bytes.min(page_size());
    let first = nth / alike * alike;
    let mut others = (first..pager.chunks.len().min(first + alike)).filter(|other| *other != nth);
    let is_new =
        |other: usize| matches!(pager.chunks[other].load(), Chunk::Untouched | Chunk::Vacant);
    if others.all(is_new) { bytes.max(page_size()) } else { 0 }
}

/// Closes each chunk that contains some of `blocks`, if all of the chunk's blocks are absent. The
/// clock skips closed chunks, and the kernel may free their page tables. The caller holds the
/// eviction lock.
pub(crate) fn close_chunks(pager: &Pager, blocks: Range<usize>) {
    let chunks = chunk_of(pager, blocks.start)..chunk_of(pager, blocks.end - 1) + 1;
    for nth in chunks {
        let (word, words) = (&pager.chunks[nth], &pager.words[blocks_in(pager, nth)]);
        let is_absent = |word: &BlockWord| word.load().state().is_absent();
        // This first check only reads the words, so no thread waits for it.
        let may_close = word.load() == Chunk::Open && words.iter().all(is_absent);
        if may_close && word.try_begin(Chunk::Open) {
            let closed = words.iter().all(is_absent).then(|| close_chunk(pager, nth));
            word.end(closed.unwrap_or(Chunk::Open));
        }
    }
}

/// Closes a chunk, and returns its new state. All blocks of the chunk are absent, and stay absent
/// until the chunk is opened.
fn close_chunk(pager: &Pager, nth: usize) -> Chunk {
    let bytes = bytes_of(pager, nth);
    let frees_tables = mappings::frees_tables(&pager.memory);
    if frees_tables && pager.backend.close_chunk(&pager.memory, bytes).is_ok() {
        pager.limit.sub_tables(tables_that_go(pager, nth));
        return Chunk::Freed;
    }
    Chunk::Kept
}

/// Returns the first clock window, from `window` on, that contains blocks of an open or changing
/// chunk.
pub(crate) fn next_open_window(pager: &Pager, window: usize) -> Option<usize> {
    let first = chunk_of(pager, window * CLOCK_WINDOW);
    let is_open = |word: &ChunkWord| matches!(word.load(), Chunk::Open | Chunk::Changing);
    let open = first + pager.chunks[first..].iter().position(is_open)?;
    Some((open * pager.mappings.chunk_bytes / pager.sizes.block / CLOCK_WINDOW).max(window))
}

/// Returns the clock windows, from `first` on, that contain blocks of open or changing chunks.
pub(crate) fn open_windows(pager: &Pager, first: usize) -> impl Iterator<Item = usize> {
    let next = |window: usize| {
        let is_within = window * CLOCK_WINDOW < pager.blocks();
        is_within.then(|| next_open_window(pager, window)).flatten()
    };
    std::iter::successors(next(first), move |window| next(window + 1))
}

/// Asserts that every block is absent or in an open chunk.
pub(crate) fn check(pager: &Pager) {
    for (block, word) in pager.words.iter().enumerate() {
        let is_absent = word.load().state().is_absent();
        let chunk = pager.chunks[chunk_of(pager, block)].load();
        assert!(is_absent || chunk == Chunk::Open, "block {block} of a chunk that is {chunk:?}");
    }
}

/// Sets the state of all chunks to `Open`, and adds the size of their page tables and words to the
/// held memory.
pub(crate) fn open_all(pager: &Pager) {
    for (nth, word) in pager.chunks.iter().enumerate() {
        let seen = word.load();
        if seen != Chunk::Open && word.try_begin(seen) {
            pager.limit.add_tables(tables_to_open(pager, nth, seen));
            word.end(Chunk::Open);
        }
    }
}

/// Sets the states of all chunks and blocks, as the initial contents of the memory require. No
/// other thread uses the pager yet.
pub(crate) fn begin(pager: &Pager, contents: Contents) {
    match contents {
        Contents::Untouched => {}
        Contents::InUse => {
            open_all(pager);
            pager.words.iter().for_each(|word| word.begin_resident());
            pager.limit.add(pager.blocks());
        }
        Contents::Vacant => pager.chunks.iter().for_each(|chunk| chunk.end(Chunk::Vacant)),
    }
}
