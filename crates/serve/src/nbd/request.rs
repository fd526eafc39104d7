//! Requests: what a header says, and what it is answered with before anything is done.

use super::batch::READ_PART;
use super::disconnect::Fault;
use super::export::{Mode, ReplyStyle};
use super::handshake::Terms;
use super::wire::*;

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) kind: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Read,
    Write,
    /// All that was written is stored: a flush, or one of a range that needs nothing to be done.
    Flush,
    Trim,
    /// Zeros that free what was there.
    Punch,
    /// Zeros that are stored, so that the range counts as used.
    WriteZeroes,
    BlockStatus {
        extents: usize,
    },
}

/// Most extents in a reply.
pub const EXTENTS_MAX: usize = 1024;

impl Request {
    /// The request that a header is.
    pub(crate) fn decode(header: &[u8; REQUEST_HEADER]) -> Result<Self, Fault> {
        let mut fields = Fields(header);
        let mut parse = || {
            let magic = fields.u32()?;
            let (flags, kind) = (fields.u16()?, fields.u16()?);
            let (cookie, offset, len) = (fields.u64()?, fields.u64()?, fields.u32()?);
            (magic == REQUEST_MAGIC).then_some(Request { flags, kind, cookie, offset, len })
        };
        let request = parse().ok_or(Fault::RequestMagic)?;
        if request.payload() > PAYLOAD_MAX {
            // Rather than read through it all to find the next request.
            return Err(Fault::WriteLength);
        }
        Ok(request)
    }

    /// Bytes that follow the header.
    pub(crate) fn payload(&self) -> u32 {
        if self.kind == CMD_WRITE { self.len } else { 0 }
    }

    /// What is to be done, or the error to answer with. DISC is not asked about.
    pub(crate) fn command(&self, terms: &Terms) -> Result<Command, ErrorCode> {
        let read_only = terms.export.mode == Mode::ReadOnly;
        if self.flags & !self.flags_possible(terms) != 0 {
            return Err(ErrorCode::Inval);
        }
        if matches!(self.kind, CMD_WRITE | CMD_TRIM | CMD_WRITE_ZEROES) && read_only {
            return Err(ErrorCode::Perm);
        }
        if self.kind == CMD_FLUSH {
            return if (self.offset, self.len) == (0, 0) {
                Ok(Command::Flush)
            } else {
                Err(ErrorCode::Inval)
            };
        }
        let end = self.offset.checked_add(u64::from(self.len));
        if end.is_none_or(|end| end > terms.export.disk.size()) {
            let is_written = matches!(self.kind, CMD_WRITE | CMD_WRITE_ZEROES);
            return Err(if is_written { ErrorCode::Nospc } else { ErrorCode::Inval });
        }
        let structured = terms.replies == ReplyStyle::Structured;
        match self.kind {
            CMD_READ if self.len > PAYLOAD_MAX => Err(ErrorCode::Inval),
            CMD_READ if self.flags & CMD_FLAG_DF != 0 && self.len as usize > READ_PART => {
                Err(ErrorCode::Overflow)
            }
            CMD_READ => Ok(Command::Read),
            CMD_WRITE => Ok(Command::Write),
            CMD_CACHE => Ok(Command::Flush),
            CMD_TRIM => Ok(Command::Trim),
            CMD_WRITE_ZEROES if self.flags & CMD_FLAG_NO_HOLE != 0 => Ok(Command::WriteZeroes),
            CMD_WRITE_ZEROES => Ok(Command::Punch),
            CMD_BLOCK_STATUS if structured && terms.allocation && self.len > 0 => {
                let one = self.flags & CMD_FLAG_REQ_ONE != 0;
                Ok(Command::BlockStatus { extents: if one { 1 } else { EXTENTS_MAX } })
            }
            _ => Err(ErrorCode::Inval),
        }
    }

    /// Flags that the command may have. FUA may stand with any.
    fn flags_possible(&self, terms: &Terms) -> u16 {
        CMD_FLAG_FUA
            | match self.kind {
                CMD_READ if terms.replies == ReplyStyle::Structured => CMD_FLAG_DF,
                CMD_WRITE_ZEROES => CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO,
                CMD_BLOCK_STATUS => CMD_FLAG_REQ_ONE,
                _ => 0,
            }
    }
}
