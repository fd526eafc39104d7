//! Objects as a job saw them, to tell whether they are still those.

use super::select::Which;
use crate::slot::Flags;
use std::ops::Deref;
use zsmalloc::Content;

/// An object as it was when a job looked at it.
#[derive(Debug)]
pub(super) struct Snapshot<B> {
    pub(super) bytes: B,
    pub(super) flags: Flags,
}

impl<B: Deref<Target = [u8]>> Snapshot<B> {
    /// Returns what an entry holds that has it.
    pub(super) fn content(&self) -> Content<'_> {
        Content::Object { bytes: &self.bytes, flags: self.flags.bits() }
    }

    /// Returns whether what an entry that is locked holds is still the object (zr-X1). One that was
    /// read since it was chosen as an idle one is no longer it.
    pub(super) fn still_equals(&self, now: Content<'_>, which: Which) -> bool {
        let Content::Object { bytes, .. } = now else { return false };
        let flags = Flags::of(now);
        let is_idle = !which.is_idle() || flags.is_idle();
        is_idle && flags.priority() == self.flags.priority() && *bytes == *self.bytes
    }
}

impl Snapshot<Vec<u8>> {
    /// Takes another, for which there is room.
    pub(super) fn take(&mut self, bytes: &[u8], flags: Flags) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.flags = flags;
    }
}
