//! The numbers of the NBD protocol, named as in the protocol's document, and their decoding.

#[cfg(test)]
mod tests;

use crate::policy::EXTENTS_MAX;

/// Reads big-endian numbers from the front of a byte string.
#[derive(Debug)]
pub(crate) struct Fields<'b>(pub(crate) &'b [u8]);

impl<'b> Fields<'b> {
    /// Takes the next `len` bytes, if at least `len` bytes are left.
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*taken))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*taken))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*taken))
    }
}

pub(crate) const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
pub(crate) const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

pub(crate) const FLAG_FIXED_NEWSTYLE: u16 = 1;
pub(crate) const FLAG_NO_ZEROES: u16 = 2;
pub(crate) const FLAG_C_FIXED_NEWSTYLE: u32 = 1;
pub(crate) const FLAG_C_NO_ZEROES: u32 = 2;

pub(crate) const OPT_EXPORT_NAME: u32 = 1;
pub(crate) const OPT_ABORT: u32 = 2;
pub(crate) const OPT_LIST: u32 = 3;
pub(crate) const OPT_STARTTLS: u32 = 5;
pub(crate) const OPT_INFO: u32 = 6;
pub(crate) const OPT_GO: u32 = 7;
pub(crate) const OPT_STRUCTURED_REPLY: u32 = 8;
pub(crate) const OPT_LIST_META_CONTEXT: u32 = 9;
pub(crate) const OPT_SET_META_CONTEXT: u32 = 10;

pub(crate) const REP_ACK: u32 = 1;
pub(crate) const REP_SERVER: u32 = 2;
pub(crate) const REP_INFO: u32 = 3;
pub(crate) const REP_META_CONTEXT: u32 = 4;
pub(crate) const REP_ERR_UNSUP: u32 = (1 << 31) + 1;
pub(crate) const REP_ERR_POLICY: u32 = (1 << 31) + 2;
pub(crate) const REP_ERR_INVALID: u32 = (1 << 31) + 3;
pub(crate) const REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;
pub(crate) const REP_ERR_TOO_BIG: u32 = (1 << 31) + 9;

pub(crate) const INFO_EXPORT: u16 = 0;
pub(crate) const INFO_NAME: u16 = 1;
pub(crate) const INFO_DESCRIPTION: u16 = 2;
pub(crate) const INFO_BLOCK_SIZE: u16 = 3;

pub(crate) const FLAG_HAS_FLAGS: u16 = 1;
pub(crate) const FLAG_READ_ONLY: u16 = 1 << 1;
pub(crate) const FLAG_SEND_FLUSH: u16 = 1 << 2;
pub(crate) const FLAG_SEND_FUA: u16 = 1 << 3;
pub(crate) const FLAG_SEND_TRIM: u16 = 1 << 5;
pub(crate) const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
pub(crate) const FLAG_SEND_DF: u16 = 1 << 7;
pub(crate) const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
pub(crate) const FLAG_SEND_CACHE: u16 = 1 << 10;
pub(crate) const FLAG_SEND_FAST_ZERO: u16 = 1 << 11;

pub(crate) const CMD_FLAG_FUA: u16 = 1;
pub(crate) const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
pub(crate) const CMD_FLAG_DF: u16 = 1 << 2;
pub(crate) const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
pub(crate) const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

pub(crate) const REPLY_FLAG_DONE: u16 = 1;
pub(crate) const REPLY_TYPE_NONE: u16 = 0;
pub(crate) const REPLY_TYPE_OFFSET_DATA: u16 = 1;
pub(crate) const REPLY_TYPE_BLOCK_STATUS: u16 = 5;
pub(crate) const REPLY_TYPE_ERROR: u16 = (1 << 15) + 1;

pub(crate) const STATE_HOLE: u32 = 1;
pub(crate) const STATE_ZERO: u32 = 2;

/// The only metadata context, and its number in replies.
pub(crate) const BASE_ALLOCATION: &str = "base:allocation";
pub(crate) const BASE_ALLOCATION_ID: u32 = 1;

/// The length in bytes of an option's header, which precedes its data.
pub(crate) const OPTION_HEADER: usize = 16;
/// The maximum length in bytes of an option's data that the server accepts.
pub const OPTION_DATA_MAX: usize = 64 << 10;
/// The maximum length of a string in the protocol, in bytes.
pub const STRING_MAX: usize = 4096;
/// The maximum number of options that the server accepts from a client.
pub const OPTIONS_MAX: usize = 64;

/// The length of a request's header in bytes.
pub(crate) const REQUEST_HEADER: usize = 28;
/// The maximum number of bytes that a request is allowed to read or write.
pub const PAYLOAD_MAX: u32 = 32 << 20;
/// The length of a simple reply's header in bytes.
pub(crate) const SIMPLE_HEADER: usize = 16;
/// The length of the header of a structured reply's chunk, in bytes.
pub(crate) const CHUNK_HEADER: usize = 20;
/// The maximum length in bytes of a reply without data: success, or an error.
pub const DONE_MAX: usize = CHUNK_HEADER + 6;
/// The maximum length in bytes of a reply to a request other than a read.
pub const SHORT_MAX: usize = CHUNK_HEADER + 4 + EXTENTS_MAX * 8;

/// Errors of the protocol. An error's number is Linux's errno value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ErrorCode {
    Perm = 1,
    Io = 5,
    Nomem = 12,
    Inval = 22,
    Nospc = 28,
    Overflow = 75,
    Shutdown = 108,
}
