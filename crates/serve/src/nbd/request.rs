//! Requests: decoding a header, and checking the request before it is carried out.

use super::bounds::{EXTENTS_MAX, READ_PART};
use super::disconnect::Fault;
use super::export::{Mode, ReplyStyle};
use super::handshake::Terms;
use super::wire::*;

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    /// The command, or `None` if the protocol defines no command with the request's number.
    pub(crate) kind: Option<Kind>,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// The commands of the protocol, with the names that the protocol uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// The client ends the connection.
    Disc,
    Flush,
    Trim,
    Cache,
    WriteZeroes,
    BlockStatus,
}

/// The operation that a valid request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Read,
    Write,
    /// Flushes the disk, for FLUSH and for CACHE. CACHE prefetches no data.
    Flush,
    /// Zeroes the range and frees its blocks, for TRIM and for WRITE_ZEROES that allows a hole.
    Punch,
    /// Stores zeros, so that the range counts as allocated.
    WriteZeroes,
    BlockStatus {
        /// The maximum number of extents in the reply.
        extents: usize,
    },
}

impl Kind {
    /// All commands, indexed by their numbers in the protocol.
    pub(super) const ALL: [Kind; 8] = [
        Kind::Read,
        Kind::Write,
        Kind::Disc,
        Kind::Flush,
        Kind::Trim,
        Kind::Cache,
        Kind::WriteZeroes,
        Kind::BlockStatus,
    ];

    /// Returns whether a read-only export refuses the command.
    fn changes_contents(self) -> bool {
        match self {
            Kind::Write | Kind::Trim | Kind::WriteZeroes => true,
            Kind::Read | Kind::Disc | Kind::Flush | Kind::Cache | Kind::BlockStatus => false,
        }
    }

    /// Returns the flags that a request with the command is allowed to set. The protocol allows FUA
    /// with all commands.
    fn flags_possible(self, terms: &Terms) -> u16 {
        let own = match self {
            Kind::Read if terms.replies == ReplyStyle::Structured => CMD_FLAG_DF,
            Kind::WriteZeroes => CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO,
            Kind::BlockStatus => CMD_FLAG_REQ_ONE,
            Kind::Read | Kind::Write | Kind::Disc | Kind::Flush | Kind::Trim | Kind::Cache => 0,
        };
        CMD_FLAG_FUA | own
    }
}

impl Request {
    /// Decodes a header.
    pub(crate) fn decode(header: &[u8; REQUEST_HEADER]) -> Result<Self, Fault> {
        let mut fields = Fields(header);
        let mut parse = || {
            let magic = fields.u32()?;
            let (flags, kind) = (fields.u16()?, Kind::ALL.get(fields.u16()? as usize).copied());
            let (cookie, offset, len) = (fields.u64()?, fields.u64()?, fields.u32()?);
            (magic == REQUEST_MAGIC).then_some(Request { flags, kind, cookie, offset, len })
        };
        let request = parse().ok_or(Fault::RequestMagic)?;
        if request.payload() > PAYLOAD_MAX {
            // The payload is too long to be skipped, so the beginning of the next request can't be
            // reached.
            return Err(Fault::WriteLength);
        }
        Ok(request)
    }

    /// Returns the length of the payload, in bytes.
    pub(crate) fn payload(&self) -> u32 {
        if self.kind == Some(Kind::Write) { self.len } else { 0 }
    }

    /// Checks the request. Returns the command to carry out, or the error to reply. The caller has
    /// handled DISC, which has no reply.
    pub(crate) fn command(&self, terms: &Terms) -> Result<Command, ErrorCode> {
        let kind = self.kind.ok_or(ErrorCode::Inval)?;
        if self.flags & !kind.flags_possible(terms) != 0 {
            return Err(ErrorCode::Inval);
        }
        if kind.changes_contents() && terms.export.mode == Mode::ReadOnly {
            return Err(ErrorCode::Perm);
        }
        if kind != Kind::Flush && !self.is_on_disk(terms) {
            let is_written = matches!(kind, Kind::Write | Kind::WriteZeroes);
            return Err(if is_written { ErrorCode::Nospc } else { ErrorCode::Inval });
        }
        let (len, has) = (self.len as usize, |flag| self.flags & flag != 0);
        match kind {
            Kind::Read if self.len > PAYLOAD_MAX => Err(ErrorCode::Inval),
            Kind::Read if has(CMD_FLAG_DF) && len > READ_PART => Err(ErrorCode::Overflow),
            Kind::Read => Ok(Command::Read),
            Kind::Write => Ok(Command::Write),
            Kind::Flush if (self.offset, self.len) != (0, 0) => Err(ErrorCode::Inval),
            Kind::Flush | Kind::Cache => Ok(Command::Flush),
            Kind::WriteZeroes if has(CMD_FLAG_NO_HOLE) => Ok(Command::WriteZeroes),
            Kind::Trim | Kind::WriteZeroes => Ok(Command::Punch),
            Kind::BlockStatus if len == 0 || !terms.allocation => Err(ErrorCode::Inval),
            Kind::BlockStatus if has(CMD_FLAG_REQ_ONE) => Ok(Command::BlockStatus { extents: 1 }),
            Kind::BlockStatus => Ok(Command::BlockStatus { extents: EXTENTS_MAX }),
            Kind::Disc => Err(ErrorCode::Inval),
        }
    }

    /// Returns whether the whole range lies on the disk.
    fn is_on_disk(&self, terms: &Terms) -> bool {
        let end = self.offset.checked_add(u64::from(self.len));
        end.is_some_and(|end| end <= terms.export.disk.size())
    }
}
