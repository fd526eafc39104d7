//! The sending side of a connection, which the connection's workers share. One worker at a time
//! sends.

use super::bounds::READ_PART;
use super::disconnect::{End, Fault};
use super::execute::Executor;
use super::export::ReplyStyle;
use super::reply::{DataPart, Replies};
use super::request::Request;
use super::stream::Stream;
use crate::policy::TAKEN_WITHIN;
use rustix_futex_sync::{Mutex, MutexGuard};

/// A connection's sending side.
pub(super) struct Sending<'c, S> {
    stream: &'c S,
    output: Mutex<Output>,
}

/// The state of the sending side.
#[derive(Default)]
struct Output {
    /// Whether a reply was sent in part. The sender is allowed to send only the remaining bytes of
    /// that reply. If the remaining bytes can't be sent, nothing more is sent.
    is_in_reply: bool,
}

impl<'c, S: Stream> Sending<'c, S> {
    pub(super) fn new(stream: &'c S) -> Self {
        Sending { stream, output: Mutex::default() }
    }

    /// Sends whole replies, unless the connection is ending.
    pub(super) fn send_replies(&self, replies: &[u8]) -> Result<(), End> {
        match self.output() {
            Some(mut output) => self.send(&mut output, replies, true),
            None => Ok(()),
        }
    }

    /// Locks the sending side. Returns `None` if a failed call has sent a reply only in part,
    /// because then the server must send nothing more.
    fn output(&self) -> Option<MutexGuard<'_, Output>> {
        Some(self.output.lock()).filter(|output| !output.is_in_reply)
    }

    /// Sends `bytes`. `is_last` is true if `bytes` end a simple reply or a chunk of a structured
    /// reply. After an error, nothing else is sent. The client would interpret further bytes as the
    /// rest of the failed reply.
    fn send(&self, output: &mut Output, bytes: &[u8], is_last: bool) -> Result<(), End> {
        output.is_in_reply = true;
        self.stream.send_all(bytes, TAKEN_WITHIN)?;
        output.is_in_reply = !is_last;
        Ok(())
    }

    /// Carries out a long read part by part. The output stays locked from the first part of a
    /// simple reply to the last part. Between the chunks of a structured reply, the server is
    /// allowed to send other replies.
    pub(super) fn read_in_parts(
        &self,
        executor: Executor<'_>,
        request: Request,
        room: &mut [u8],
    ) -> Result<(), End> {
        let style = executor.terms.replies;
        let end = request.offset + u64::from(request.len);
        let mut at = request.offset;
        let mut output: Option<MutexGuard<'_, Output>> = None;
        while at < end {
            // Each part except the last ends at a block boundary, so no block is decompressed for
            // two parts.
            let len = (READ_PART as u64 - at % READ_PART as u64).min(end - at);
            let part = DataPart { at, len: len as usize };
            let mut replies = Replies::new(room);
            let read = executor.read_part(&request, part, &mut replies);
            if let Err(code) = read {
                if part.is_bare(&request, style) {
                    return Err(Fault::Unreadable.into());
                }
                replies.error(&request, style, code);
            }
            at = if read.is_ok() { at + len } else { end };
            let is_final = match style {
                ReplyStyle::Simple => !part.is_bare(&request, style),
                ReplyStyle::Structured => at == end,
            };
            let Some(mut sending) = output.take().or_else(|| self.output()) else {
                return Ok(());
            };
            let is_last = style == ReplyStyle::Structured || at == end;
            self.send(&mut sending, replies.into_bytes(is_final.into()), is_last)?;
            output = (style == ReplyStyle::Simple).then_some(sending);
        }
        Ok(())
    }
}
