//! Collects samples, and packs values again with the dictionary that was trained from the samples.

use super::super::coder::{Coder, Form, Packed};
use super::super::refusal::Refusal;
use super::super::samples::{Due, small_len};
use super::super::slots::Use;
use super::{Core, Departed};
use std::sync::Arc;
use zsmalloc::Content;

/// The number of slots whose values are copied before the lock is released.
const COPIED_AT_ONCE: u32 = 16;

impl<K> Core<K> {
    /// Returns the next step towards a dictionary, to be taken after the lock is released.
    pub fn take_due(&mut self) -> Option<Due> {
        let small = self.small_stored;
        self.due.take_if(|due| small >= due.from)
    }

    /// Returns copies of the values that have one piece, from slot `from` on, and the slot at which
    /// to continue, if more slots remain. A value is left out if memory for its copy can't be
    /// allocated.
    pub fn small_values(&self, from: u32) -> (Vec<Packed>, Option<u32>) {
        let to = from.saturating_add(COPIED_AT_ONCE).min(self.slots.count());
        let is_small = |&index: &u32| {
            let slot = self.slots.get(index);
            slot.used_as == Use::First && small_len(slot.len as usize, self.block) > 0
        };
        let values = (from..to).filter(is_small).flat_map(|index| self.packed(index)).collect();
        (values, (to < self.slots.count()).then_some(to))
    }

    /// Uses a trained coder for all values from now on, if the coder fits within the limit. Returns
    /// whether it does.
    pub fn adopt(&mut self, coder: Arc<Coder>, out: &mut Departed<K>) -> bool {
        let mut youngest = self.slots.youngest();
        let adopts = self.coders[1].is_none() && self.make_room(coder.bytes(), &mut youngest, out);
        if adopts {
            self.all_coders.push(Arc::downgrade(&coder));
            self.coders[1] = Some(coder);
            self.repacks = true;
            self.drop_unused();
        }
        adopts
    }

    /// Drops the first coder if no piece needs it any more.
    pub(super) fn drop_unused(&mut self) {
        if self.coders[1].is_some() && self.pieces_of[0] == 0 {
            self.coders[0] = None;
        }
    }

    /// Packs pieces again with the trained coder, from slot `from` on, until `most` bytes were
    /// packed. Returns the slot at which to continue, if more slots remain.
    ///
    /// # Errors
    /// If memory can't be allocated.
    pub fn repack(&mut self, from: u32, most: usize) -> Result<Option<u32>, Refusal> {
        let [Some(first), Some(trained)] = self.coders.clone() else { return Ok(None) };
        self.limit_pages(0);
        let (mut done, mut piece) = (0, from);
        while piece < self.slots.count() && done < most {
            let slot = self.slots.get(piece);
            let len = (slot.len as usize).min(trained.block());
            if slot.used_as != Use::Free && len > 0 {
                self.repack_piece(piece, len, &first, &trained)?;
                done += len;
            }
            piece += 1;
        }
        self.drop_unused();
        Ok((piece < self.slots.count()).then_some(piece))
    }

    fn repack_piece(
        &mut self,
        piece: u32,
        len: usize,
        first: &Coder,
        trained: &Coder,
    ) -> Result<(), Refusal> {
        let Some(entry) = self.pool.lock_existing(piece) else { return Ok(()) };
        let Content::Object { bytes, flags } = entry.content() else { return Ok(()) };
        let (old, form) = (bytes.len(), Form::of_flags(flags));
        let mut block = vec![0; len];
        match form {
            Form::Raw => block.copy_from_slice(bytes),
            Form::First => first.unpack_block(bytes, &mut block)?,
            Form::Trained => return Ok(()),
        }
        let mut bytes = Vec::new();
        let new = trained.pack_block(&block, &mut bytes)?;
        // A piece that does not fit stays unchanged, so the first coder is still needed.
        if new == form || entry.store(&bytes, new as u8).is_err() {
            return Ok(());
        }
        self.count_piece(old, form, false);
        self.count_piece(bytes.len(), new, true);
        Ok(())
    }
}
