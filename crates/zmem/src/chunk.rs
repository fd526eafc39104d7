//! Chunks: the large ranges in which memory is PROT_NONE until its first touch, so that it needs no
//! page tables. A chunk is opened when one of its blocks is first touched. From then on, each block
//! has its own mark. The chunk is closed when all of its blocks are absent again. Chunks of an
//! arena are vacant at first: they are closed, and all of their blocks are free.

use crate::chunk_word::{Chunk, ChunkWord};
use crate::memory::table_reach;
use crate::pager::Pager;
use crate::policy::CLOCK_WINDOW;
use crate::probes;
use crate::state::BlockWord;
use page::page_size;
use std::ops::Range;

impl Pager {
    /// Returns the number of the chunk that a block is in.
    fn chunk_of(&self, block: usize) -> usize {
        block * self.sizes.block / self.chunk_bytes
    }

    fn bytes_of_chunk(&self, nth: usize) -> Range<usize> {
        let start = nth * self.chunk_bytes;
        self.memory.in_window(start..start + self.chunk_bytes)
    }

    /// Returns the blocks of the chunk that a block is in.
    pub(crate) fn blocks_of_chunk(&self, block: usize) -> Range<usize> {
        let Range { start, end } = self.bytes_of_chunk(self.chunk_of(block));
        start / self.sizes.block..end / self.sizes.block
    }

    /// Returns whether the chunk of a block is open. The caller has just become the block's owner.
    pub(crate) fn is_open_around(&self, block: usize) -> bool {
        self.chunks[self.chunk_of(block)].is_open_for_owner()
    }

    pub(crate) fn is_vacant(&self, block: usize) -> bool {
        self.chunks[self.chunk_of(block)].load() == Chunk::Vacant
    }

    /// Makes all chunks vacant, before any other thread can use the pager.
    pub(crate) fn vacate_all_chunks(&self) {
        self.chunks.iter().for_each(|chunk| chunk.end(Chunk::Vacant));
    }

    /// Changes a whole chunk from vacant to managed, or from managed to vacant if it was never
    /// touched. Returns whether the chunk was changed. The first block of `blocks` is the first
    /// block of a chunk.
    pub(crate) fn try_turn_chunk(&self, blocks: &Range<usize>, is_managed: bool) -> bool {
        let nth = self.chunk_of(blocks.start);
        let is_whole = self.bytes_of(blocks.clone()) == self.bytes_of_chunk(nth);
        let (from, to) = match is_managed {
            true => (Chunk::Vacant, Chunk::Untouched),
            false => (Chunk::Untouched, Chunk::Vacant),
        };
        let is_ours = is_whole && self.chunks[nth].try_begin(from);
        if is_ours {
            self.chunks[nth].end(to);
        }
        is_ours
    }

    /// Opens the chunk of a block unless the chunk is vacant. If another thread is opening the
    /// chunk, waits for that thread; therefore the caller must own no block (zm-S4).
    pub(crate) fn open_chunk(&self, block: usize) {
        self.open_chunk_if(block, |seen| seen != Chunk::Vacant);
    }

    /// Opens the chunk of a block even if the chunk is vacant. All blocks of a vacant chunk are
    /// free.
    pub(crate) fn open_any_chunk(&self, block: usize) {
        self.open_chunk_if(block, |_| true);
    }

    fn open_chunk_if(&self, block: usize, may_open: impl Fn(Chunk) -> bool) {
        let nth = self.chunk_of(block);
        let (word, bytes) = (&self.chunks[nth], self.bytes_of_chunk(nth));
        loop {
            match word.load() {
                Chunk::Open => return,
                Chunk::Changing => {
                    self.wait_for_owner(|| word.load() != Chunk::Changing, || word.wait())
                }
                seen if !may_open(seen) => return,
                seen if word.try_begin(seen) => {
                    self.limit.add_tables(self.tables_to_open(nth, seen));
                    if seen == Chunk::Vacant {
                        let blocks = bytes.start / self.sizes.block..bytes.end / self.sizes.block;
                        self.words[blocks].iter().for_each(BlockWord::begin_free);
                    }
                    let open = |_| self.backend.open_chunk(&self.memory, bytes.clone());
                    // Memory that the program locked, for example by `mlockall`, can't be marked.
                    let opened = open(()).or_else(|_| {
                        self.memory.unlock(bytes.clone())?;
                        open(())
                    });
                    self.expect("memory can't be marked", opened);
                    word.end(Chunk::Open);
                }
                _ => {}
            }
        }
    }

    /// Returns the bytes of page tables and of blocks' words that opening a chunk in the state
    /// `from` allocates.
    fn tables_to_open(&self, nth: usize, from: Chunk) -> usize {
        match from {
            Chunk::Untouched | Chunk::Vacant => {
                let (reached, _) = self.tables_of(nth);
                reached * page_size() * self.backend.places() + self.words_to_open(nth)
            }
            Chunk::Freed => self.tables_that_go(nth),
            _ => 0,
        }
    }

    /// Returns the bytes of page tables that closing a chunk frees.
    fn tables_that_go(&self, nth: usize) -> usize {
        let (_, own) = self.tables_of(nth);
        own * page_size() * self.backend.places()
    }

    /// Returns two counts of page tables: those that map part of the chunk, and those that map
    /// nothing except the chunk.
    fn tables_of(&self, nth: usize) -> (usize, usize) {
        let (bytes, reach) = (self.bytes_of_chunk(nth), table_reach());
        let start = self.memory.address_of(&bytes);
        let end = start + bytes.len();
        let reached = end.div_ceil(reach) - start / reach;
        (reached, (end / reach).saturating_sub(start.div_ceil(reach)))
    }

    /// Returns the bytes of blocks' words that the first touch of a chunk allocates. A page of
    /// words may belong to several chunks, and is counted when the first of these chunks is opened.
    fn words_to_open(&self, nth: usize) -> usize {
        let bytes = self.chunk_bytes / self.sizes.block * size_of::<BlockWord>();
        let alike = page_size() / bytes.min(page_size());
        let first = nth / alike * alike;
        let mut others =
            (first..self.chunks.len().min(first + alike)).filter(|other| *other != nth);
        let is_new =
            |other: usize| matches!(self.chunks[other].load(), Chunk::Untouched | Chunk::Vacant);
        match others.all(is_new) {
            true => bytes.max(page_size()),
            false => 0,
        }
    }

    /// Closes each chunk that contains some of these blocks, if all blocks of the chunk are absent.
    /// Closing a chunk can free its page tables, and the clock passes over closed chunks. The
    /// caller holds the eviction lock.
    pub(crate) fn close_chunks(&self, blocks: Range<usize>) {
        let chunks = self.chunk_of(blocks.start)..self.chunk_of(blocks.end - 1) + 1;
        for nth in chunks {
            let (word, bytes) = (&self.chunks[nth], self.bytes_of_chunk(nth));
            let words = &self.words[bytes.start / self.sizes.block..bytes.end / self.sizes.block];
            let is_absent = |word: &BlockWord| word.load().state().is_absent();
            // The first check only reads words, so it does not disturb other threads.
            let may_close = word.load() == Chunk::Open && words.iter().all(is_absent);
            if may_close && word.try_begin(Chunk::Open) {
                let closed = words.iter().all(is_absent).then(|| self.close_chunk(nth));
                word.end(closed.unwrap_or(Chunk::Open));
            }
        }
    }

    /// Closes a chunk. All of its blocks are absent, and they stay absent until the chunk is
    /// opened.
    fn close_chunk(&self, nth: usize) -> Chunk {
        let bytes = self.bytes_of_chunk(nth);
        let frees_tables = probes::frees_tables(&self.memory);
        if frees_tables && self.backend.close_chunk(&self.memory, bytes).is_ok() {
            self.limit.sub_tables(self.tables_that_go(nth));
            return Chunk::Freed;
        }
        Chunk::Kept
    }

    /// Returns the first clock window, at or after `window`, that contains blocks of a chunk that
    /// is open or changing.
    pub(crate) fn next_open_window(&self, window: usize) -> Option<usize> {
        let first = self.chunk_of(window * CLOCK_WINDOW);
        let is_open = |word: &ChunkWord| matches!(word.load(), Chunk::Open | Chunk::Changing);
        let open = first + self.chunks[first..].iter().position(is_open)?;
        Some((open * self.chunk_bytes / self.sizes.block / CLOCK_WINDOW).max(window))
    }

    /// Asserts that all blocks of chunks that are not open are absent.
    pub(crate) fn check_chunks(&self) {
        for (block, word) in self.words.iter().enumerate() {
            let is_absent = word.load().state().is_absent();
            let chunk = self.chunks[self.chunk_of(block)].load();
            assert!(
                is_absent || chunk == Chunk::Open,
                "block {block} of a chunk that is {chunk:?}"
            );
        }
    }

    /// Sets all chunks to open, for memory that the program used before.
    pub(crate) fn open_all_chunks(&self) {
        for (nth, word) in self.chunks.iter().enumerate() {
            let seen = word.load();
            if seen != Chunk::Open && word.try_begin(seen) {
                self.limit.add_tables(self.tables_to_open(nth, seen));
                word.end(Chunk::Open);
            }
        }
    }
}
