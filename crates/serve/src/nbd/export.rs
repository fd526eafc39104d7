//! Exports: disks with the names that clients request.

use super::bounds::READ_PART;
use super::wire::*;
use crate::disk::Disk;
use std::sync::Arc;

/// Whether clients are allowed to write to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Clients are allowed to read and write.
    ReadWrite,
    /// Clients are only allowed to read.
    ReadOnly,
}

/// A disk and the name by which clients request it.
#[derive(Clone)]
pub struct Export {
    /// The export's name, of at most 4096 bytes.
    pub name: String,
    /// A line that clients show to their users.
    pub description: String,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Whether clients are allowed to write to the disk.
    pub mode: Mode,
}

impl Export {
    /// Returns the transmission flags for a client of this export.
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

/// The style of replies to reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyStyle {
    Simple,
    Structured,
}

/// All exports of a server. If no export has the empty name, a client that requests the empty name
/// gets the first export.
#[derive(Clone)]
pub struct Exports {
    all: Arc<[Export]>,
    write_max: u32,
}

impl Exports {
    /// Creates a list of exports. A server without exports refuses every client.
    pub fn new(exports: impl Into<Arc<[Export]>>) -> Self {
        Exports { all: exports.into(), write_max: PAYLOAD_MAX }
    }

    /// Sets the maximum length of a write, and the memory for long writes of all clients. Both
    /// values are `bytes`, but at least 256 KiB and at most 32 MiB, rounded down to a multiple of
    /// 256 KiB. A longer write fails with ENOMEM.
    pub fn with_write_max(self, bytes: u64) -> Self {
        let bytes = bytes.clamp(READ_PART as u64, PAYLOAD_MAX.into()) as u32;
        Exports { write_max: bytes - bytes % READ_PART as u32, ..self }
    }

    pub(crate) fn write_max(&self) -> u32 {
        self.write_max
    }

    pub(crate) fn all(&self) -> &[Export] {
        &self.all
    }

    /// Returns the export for the name that a client sent.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Export> {
        let named = self.all.iter().find(|export| export.name.as_bytes() == name);
        named.or_else(|| self.all.first().filter(|_| name.is_empty()))
    }
}
