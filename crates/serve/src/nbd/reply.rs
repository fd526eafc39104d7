//! Replies to requests, encoded one after another into a worker's buffer.

use super::export::ReplyStyle;
use super::request::Request;
use super::wire::*;
use crate::disk::Extent;

/// Returns the number of bytes before a read's data.
pub(crate) fn read_header(style: ReplyStyle) -> usize {
    match style {
        ReplyStyle::Simple => SIMPLE_HEADER,
        ReplyStyle::Structured => CHUNK_HEADER + size_of::<u64>(),
    }
}

/// The replies of a batch, and the buffer that contains them.
#[derive(Debug)]
pub(crate) struct Replies<'b> {
    room: &'b mut [u8],
    len: usize,
    /// The number of answered requests: the number of simple replies, plus the number of last
    /// chunks of structured replies.
    finals: usize,
}

impl<'b> Replies<'b> {
    pub(crate) fn new(room: &'b mut [u8]) -> Self {
        Replies { room, len: 0, finals: 0 }
    }

    /// Returns the bytes of all replies. Debug builds assert that the number of replies is
    /// `requests`, so that no reply is missing or sent twice.
    pub(crate) fn into_bytes(self, requests: usize) -> &'b [u8] {
        debug_assert_eq!(self.finals, requests, "as many replies as requests");
        &self.room[..self.len]
    }

    /// Appends bytes. The bytes fit, because a batch contains only requests whose replies fit in
    /// the buffer.
    fn put(&mut self, bytes: &[u8]) {
        self.room[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn simple_header(&mut self, request: &Request, error: u32) {
        self.finals += 1;
        self.put(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        self.put(&error.to_be_bytes());
        self.put(&request.cookie.to_be_bytes());
    }

    fn chunk_header(&mut self, request: &Request, flags: u16, kind: u16, len: usize) {
        self.finals += usize::from(flags & REPLY_FLAG_DONE != 0);
        self.put(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        self.put(&flags.to_be_bytes());
        self.put(&kind.to_be_bytes());
        self.put(&request.cookie.to_be_bytes());
        self.put(&(len as u32).to_be_bytes());
    }

    /// Appends the reply to a request that succeeded and has no data to return.
    pub(crate) fn done(&mut self, request: &Request, style: ReplyStyle) {
        match style {
            ReplyStyle::Simple => self.simple_header(request, 0),
            ReplyStyle::Structured => {
                self.chunk_header(request, REPLY_FLAG_DONE, REPLY_TYPE_NONE, 0)
            }
        }
    }

    /// Appends an error reply.
    pub(crate) fn error(&mut self, request: &Request, style: ReplyStyle, code: ErrorCode) {
        match style {
            ReplyStyle::Simple => self.simple_header(request, code as u32),
            ReplyStyle::Structured => {
                self.chunk_header(request, REPLY_FLAG_DONE, REPLY_TYPE_ERROR, 6);
                self.put(&(code as u32).to_be_bytes());
                // The length of an empty message.
                self.put(&[0; 2]);
            }
        }
    }

    /// Returns the buffer for a part's data, which follows the space for the part's header. A later
    /// call of [`read`](Self::read) adds the data to the replies.
    pub(crate) fn data(
        &mut self,
        request: &Request,
        style: ReplyStyle,
        part: DataPart,
    ) -> &mut [u8] {
        let header = if part.is_bare(request, style) { 0 } else { read_header(style) };
        &mut self.room[self.len + header..][..part.len]
    }

    /// Appends a part of a read, whose data are in the buffer that [`data`](Self::data) returned.
    pub(crate) fn read(&mut self, request: &Request, style: ReplyStyle, part: DataPart) {
        match style {
            ReplyStyle::Simple if part.is_bare(request, style) => {}
            ReplyStyle::Simple => self.simple_header(request, 0),
            ReplyStyle::Structured => {
                let flags = if part.is_last(request) { REPLY_FLAG_DONE } else { 0 };
                self.chunk_header(request, flags, REPLY_TYPE_OFFSET_DATA, part.len + 8);
                self.put(&part.at.to_be_bytes());
            }
        }
        self.len += part.len;
    }

    /// Appends at most `most` of the extents that `find` reports. The reply itself stores the
    /// extents, so no other memory is needed.
    pub(crate) fn block_status(
        &mut self,
        request: &Request,
        most: usize,
        find: impl FnOnce(&mut dyn FnMut(Extent) -> bool),
    ) {
        let (mut rooms, mut count) =
            (self.room[self.len + CHUNK_HEADER + 4..].chunks_exact_mut(8).take(most), 0);
        find(&mut |extent| {
            let Some(room) = rooms.next() else { return false };
            let state = if extent.is_stored { 0 } else { STATE_HOLE | STATE_ZERO };
            let fields = [(extent.len as u32).to_be_bytes(), u32::to_be_bytes(state)];
            room.copy_from_slice(fields.as_flattened());
            count += 1;
            count < most
        });
        let len = 8 * count;
        self.chunk_header(request, REPLY_FLAG_DONE, REPLY_TYPE_BLOCK_STATUS, 4 + len);
        self.put(&BASE_ALLOCATION_ID.to_be_bytes());
        self.len += len;
    }
}

/// A part of a read's range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataPart {
    /// The part's offset on the disk.
    pub(crate) at: u64,
    pub(crate) len: usize,
}

impl DataPart {
    /// Returns whether the part has no header of its own, because it continues a simple reply.
    pub(crate) fn is_bare(&self, request: &Request, style: ReplyStyle) -> bool {
        style == ReplyStyle::Simple && self.at > request.offset
    }

    /// Returns whether this is the last part of `request`.
    fn is_last(&self, request: &Request) -> bool {
        self.at + self.len as u64 == request.offset + u64::from(request.len)
    }
}
