//! Samples are gathered, and what is kept is packed anew with the dictionary trained from them.

use super::super::coder::{Coder, Form};
use super::super::refusal::Refusal;
use super::super::samples::Samples;
use super::super::slots::Use;
use super::{Core, Departed};
use std::sync::Arc;
use uzram::zsmalloc::Content;

impl<K> Core<K> {
    /// Adds the youngest value to the samples, if there is room, and returns them once there are
    /// enough.
    pub fn sample(&mut self, value: &[u8], out: &mut Departed<K>) -> Option<Samples> {
        let growth = self.samples.as_ref()?.growth(value);
        if !self.make_room(growth, &mut self.slots.youngest(), out) {
            return None;
        }
        let is_full = self.samples.as_mut()?.add(value);
        if is_full { self.samples.take() } else { None }
    }

    /// Takes a coder that was trained, for all values from now on, if there is room for it.
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

    /// Drops the first coder if it is of no use any more.
    pub(super) fn drop_unused(&mut self) {
        if self.coders[1].is_some() && self.pieces_of[0] == 0 {
            self.coders[0] = None;
        }
    }

    /// Packs pieces anew with the trained coder, from slot `from` on, until that was done to `most`
    /// bytes, and returns where to go on, if there are more.
    ///
    /// # Errors
    /// There is no memory.
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
        // What came out longer, or finds no room, stays as it is, and the first coder with it.
        if new == Form::Raw || bytes.len() > old || entry.store(&bytes, new as u8).is_err() {
            return Ok(());
        }
        self.count_piece(old, form, false);
        self.count_piece(bytes.len(), new, true);
        Ok(())
    }
}
