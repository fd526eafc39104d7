//! The pieces of all values, in the entries of a pool.

use super::coder::{ByForm, Coder, Form};
use super::packed::Packed;
use crate::policy::{FREEABLE_SHARE, REFUSALS, SHRINK_BYTES};
use std::collections::TryReserveError;
use std::sync::Arc;
use zsmalloc::{Config, Content, EntryPool, EntryWriteGuard, Error};

/// The pool that holds the pieces, and statistics of the pieces.
#[derive(Debug)]
pub struct Pieces {
    pub pool: Arc<EntryPool>,
    /// The order of the pool's objects.
    order: u32,
    /// The number of bytes that a new pool uses.
    new_bytes: usize,
    /// The number of bytes that a pool uses in addition to its pages after its first store.
    pub begun_bytes: usize,
    /// The sum of the lengths of the stored pieces in bytes.
    pub compressed: u64,
    /// The number of pieces that each coder has compressed.
    pub of_coder: [u64; 2],
    refusals: u32,
}

fn new_pool(order: u32) -> Result<Arc<EntryPool>, Error> {
    let mut config = Config::default();
    config.geometry = config.geometry.with_order(order);
    Ok(Arc::new(EntryPool::new(config, u32::MAX.into(), Default::default())?))
}

/// Returns the bytes and the form of the piece in a locked entry, or `None` if the entry holds no
/// piece.
fn content<'e>(entry: &'e EntryWriteGuard<'_>) -> Option<(&'e [u8], Form)> {
    match entry.content() {
        Content::Object { bytes, flags } => Some((bytes, Form::of_flags(flags))),
        Content::Inline(_) => None,
    }
}

impl Pieces {
    /// Returns an empty pool whose objects have the order `order`.
    pub fn new(order: u32) -> Result<Self, Error> {
        let pool = new_pool(order)?;
        let new_bytes = pool.bytes();
        let begun = new_pool(order)?;
        begun.lock(0)?.store(&[0], 0)?;
        let begun_bytes = begun.bytes() - begun.pages().used() * page::page_size();
        begun.lock(0)?.set_payload(0);
        let (compressed, of_coder, refusals) = (0, [0; 2], 0);
        Ok(Pieces { pool, order, new_bytes, begun_bytes, compressed, of_coder, refusals })
    }

    fn count(&mut self, len: usize, form: Form, is_new: bool) {
        let step = |count: &mut u64, by| *count = if is_new { *count + by } else { *count - by };
        step(&mut self.compressed, len as u64);
        if let Some(index) = form.index() {
            step(&mut self.of_coder[index], 1);
        }
    }

    /// Stores a piece in an empty entry.
    pub fn store(&mut self, index: u32, bytes: &[u8], form: Form) -> Result<(), Error> {
        self.pool.lock(index)?.store(bytes, form as u8)?;
        self.count(bytes.len(), form, true);
        Ok(())
    }

    /// Frees the piece in an entry, if the entry holds one.
    pub fn free(&mut self, index: u32) {
        let Some(entry) = self.pool.lock_existing(index) else { return };
        let Some((len, form)) = content(&entry).map(|(bytes, form)| (bytes.len(), form)) else {
            return;
        };
        entry.set_payload(0);
        self.count(len, form, false);
    }

    /// Appends a copy of the piece in an entry to the value `packed`.
    pub fn copy_to(
        &self,
        index: u32,
        packed: &mut Packed,
        coders: &ByForm,
    ) -> Result<(), TryReserveError> {
        let guard = self.pool.read(index);
        let Content::Object { bytes, flags } = guard.content() else { return Ok(()) };
        let form = Form::of_flags(flags);
        packed.bytes.try_reserve(bytes.len())?;
        packed.bytes.extend_from_slice(bytes);
        packed.end_piece(form, || form.index().and_then(|index| coders[index].clone()))
    }

    /// Moves a piece to an empty entry. Returns false if the piece was lost because the system
    /// refused memory.
    pub fn relocate(&mut self, from: u32, to: u32) -> bool {
        let mut copy = Packed::default();
        let copied = self.copy_to(from, &mut copy, &[None, None]);
        self.free(from);
        let mut parts = copy.parts();
        copied.is_ok() && parts.all(|(form, bytes)| self.store(to, bytes, form).is_ok())
    }

    /// Packs the piece in an entry again with the trained coder. `len` is the length of the
    /// unpacked piece.
    ///
    /// # Errors
    /// Fails if memory can't be allocated.
    pub fn repack(
        &mut self,
        index: u32,
        len: usize,
        first: &Coder,
        trained: &Coder,
    ) -> Result<(), crate::Error> {
        let Some(entry) = self.pool.lock_existing(index) else { return Ok(()) };
        let Some((bytes, form)) = content(&entry) else { return Ok(()) };
        let (old, mut block) = (bytes.len(), vec![0; len]);
        match form {
            Form::Raw => block.copy_from_slice(bytes),
            Form::First => first.unpack_block(bytes, &mut block)?,
            Form::Trained => return Ok(()),
        }
        let mut bytes = Vec::new();
        let new = trained.pack_block(&block, &mut bytes)?;
        // If the packed piece does not fit, the entry stays unchanged, and the first coder is still
        // needed.
        if new != form && entry.store(&bytes, new as u8).is_ok() {
            self.count(old, form, false);
            self.count(bytes.len(), new, true);
        }
        Ok(())
    }

    /// Returns the number of bytes of the pool's pages.
    pub fn page_bytes(&self) -> usize {
        self.pool.pages().used() * page::page_size()
    }

    /// Limits the pool's pages to `bytes` bytes.
    pub fn limit_pages(&self, bytes: usize) {
        self.pool.pages().set_limit(Some(bytes / page::page_size()));
    }

    /// Counts a store that was refused because of the limit. Returns true, once in `REFUSALS`
    /// calls, if the caller should compact the pool.
    pub fn count_refusal(&mut self) -> bool {
        self.refusals = self.refusals.wrapping_add(1);
        self.refusals.is_multiple_of(REFUSALS)
    }

    /// Compacts the pool if compaction frees much memory. Returns true if the pool was compacted.
    pub fn compact(&self) -> bool {
        self.pool.freeable() > self.page_bytes() / FREEABLE_SHARE && self.shrink()
    }

    /// Compacts a part of the pool, and releases the pages that become free. Returns true if the
    /// pool has shrunk.
    pub fn shrink(&self) -> bool {
        self.pool.shrink(SHRINK_BYTES) > 0
    }

    /// Resets the pool, which must hold no pieces.
    pub fn renew(&mut self) {
        self.pool.trim();
        if self.pool.bytes() > self.new_bytes {
            // If the system refuses a new pool, the old pool stays in use.
            self.pool = new_pool(self.order).unwrap_or_else(|_| self.pool.clone());
        }
    }
}
