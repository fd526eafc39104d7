//! What clients can ask for: disks under names.

use super::wire::*;
use crate::disk::Disk;
use std::sync::Arc;

/// Whether clients may change a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They may.
    ReadWrite,
    /// They only read.
    ReadOnly,
}

/// A disk under a name.
#[derive(Clone)]
pub struct Export {
    /// What clients call it: up to 4096 bytes.
    pub name: String,
    /// A line for people.
    pub description: String,
    /// What it is.
    pub disk: Arc<dyn Disk>,
    /// What clients may do with it.
    pub mode: Mode,
}

impl Export {
    /// Returns the flags a client gets with it.
    pub(crate) fn transmission_flags(&self, replies: ReplyStyle) -> u16 {
        let all = FLAG_HAS_FLAGS
            | FLAG_SEND_FLUSH
            | FLAG_SEND_FUA
            | FLAG_CAN_MULTI_CONN
            | FLAG_SEND_CACHE;
        let mode = match self.mode {
            Mode::ReadWrite => FLAG_SEND_TRIM | FLAG_SEND_WRITE_ZEROES | FLAG_SEND_FAST_ZERO,
            Mode::ReadOnly => FLAG_READ_ONLY,
        };
        let style = match replies {
            ReplyStyle::Simple => 0,
            ReplyStyle::Structured => FLAG_SEND_DF,
        };
        all | mode | style
    }
}

/// How reads are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyStyle {
    Simple,
    Structured,
}

/// All there is to ask for. An empty name is the first one's.
#[derive(Clone)]
pub struct Exports(Arc<[Export]>);

impl Exports {
    /// Returns the exports. There has to be at least one, or no client gets anything.
    pub fn new(exports: impl Into<Arc<[Export]>>) -> Self {
        Exports(exports.into())
    }

    pub(crate) fn all(&self) -> &[Export] {
        &self.0
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&Export> {
        let named = self.0.iter().find(|export| export.name.as_bytes() == name);
        named.or_else(|| self.0.first().filter(|_| name.is_empty()))
    }
}
