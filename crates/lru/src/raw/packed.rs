//! Values in their stored form.

use super::coder::{ByForm, Coder, Form};
use crate::Error;
use crate::policy::SLACK;
use std::collections::TryReserveError;
use std::sync::Arc;

/// A piece of a packed value: the form of the piece, and the end of its bytes in [`Packed::bytes`].
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The coder that compressed the piece.
    pub form: Form,
    /// The offset of the end of the piece's bytes.
    pub end: usize,
}

/// A value in its stored form. Each piece of the value is compressed, or stored raw.
#[derive(Debug, Default)]
pub struct Packed {
    /// The length of the value in bytes.
    pub len: usize,
    /// The pieces of the value. An empty value has no pieces.
    pub pieces: Vec<Piece>,
    /// The bytes of the pieces, one after another.
    pub bytes: Vec<u8>,
    /// The coders that decompress the pieces, by form.
    pub coders: ByForm,
}

impl Packed {
    /// Packs `value` into at most `limit` bytes.
    ///
    /// # Errors
    /// Fails if the result is longer, or memory can't be allocated.
    pub fn pack(coder: &Arc<Coder>, value: &[u8], limit: usize) -> Result<Self, Error> {
        let mut packed = Packed { len: value.len(), ..Packed::default() };
        let bytes = value.len();
        let no_memory = |_| Error::NoMemory { bytes };
        for block in value.chunks(coder.block) {
            packed.bytes.try_reserve(block.len() + SLACK).map_err(no_memory)?;
            let form = coder.pack_block(block, &mut packed.bytes)?;
            if packed.bytes.len() > limit {
                return Err(Error::NoRoom { bytes, limit });
            }
            packed.end_piece(form, || Some(coder.clone())).map_err(no_memory)?;
        }
        Ok(packed)
    }

    /// Adds a piece of the form `form`, whose bytes were just appended to `bytes`. `coder` returns
    /// the coder of `form`.
    pub fn end_piece(
        &mut self,
        form: Form,
        coder: impl FnOnce() -> Option<Arc<Coder>>,
    ) -> Result<(), TryReserveError> {
        self.pieces.try_reserve(1)?;
        self.pieces.push(Piece { form, end: self.bytes.len() });
        if let Some(place) = form.index().map(|index| &mut self.coders[index])
            && place.is_none()
        {
            *place = coder();
        }
        Ok(())
    }

    /// Returns the form and the bytes of each piece.
    pub fn parts(&self) -> impl Iterator<Item = (Form, &[u8])> {
        let starts = std::iter::once(0).chain(self.pieces.iter().map(|piece| piece.end));
        let parts = self.pieces.iter().zip(starts);
        parts.map(|(piece, start)| (piece.form, &self.bytes[start..piece.end]))
    }

    /// Unpacks the value into `out`, which must have the length of the value.
    ///
    /// # Errors
    /// Fails if memory for a stream can't be allocated, or the value is damaged.
    pub fn unpack(&self, out: &mut [u8]) -> Result<(), Error> {
        let mut rest = out;
        for (form, bytes) in self.parts() {
            let coder = form.index().and_then(|index| self.coders[index].as_ref());
            let len = coder.map_or(bytes.len(), |coder| coder.block);
            let (block, behind) = rest.split_at_mut(len.min(rest.len()));
            match coder {
                Some(coder) => coder.unpack_block(bytes, block)?,
                None => block.copy_from_slice(bytes),
            }
            rest = behind;
        }
        debug_assert!(rest.is_empty());
        Ok(())
    }

    /// Unpacks at most `out.len()` bytes from the start of the value into `out`. Returns the length
    /// of the whole value.
    ///
    /// # Errors
    /// Fails as [`value`](Self::value) does.
    pub fn read(&self, out: &mut [u8]) -> Result<usize, Error> {
        if self.len <= out.len() {
            self.unpack(&mut out[..self.len])?;
        } else if !out.is_empty() {
            out.copy_from_slice(&self.value()?[..out.len()]);
        }
        Ok(self.len)
    }

    /// Returns the unpacked value.
    ///
    /// # Errors
    /// Fails as [`unpack`](Self::unpack) does, or if memory for the value can't be allocated.
    pub fn value(&self) -> Result<Vec<u8>, Error> {
        let mut value = Vec::new();
        let reserved = value.try_reserve_exact(self.len);
        reserved.map_err(|_| Error::NoMemory { bytes: self.len })?;
        value.resize(self.len, 0);
        self.unpack(&mut value)?;
        Ok(value)
    }
}
