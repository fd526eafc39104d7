//! The receiving side of a connection, with a buffer for requests that no worker has taken yet.

use super::bounds::INPUT_BUFFER;
use super::buffer::Buffer;
use super::disconnect::{End, Fault};
use super::request::Request;
use super::stream::Stream;
use super::wire::*;
use crate::policy::{REST_BYTES_PER_SECOND, REST_WITHIN};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The bytes that were received but not taken yet: several requests, or an incomplete request.
pub(crate) struct Input {
    buf: Buffer,
    start: usize,
    end: usize,
}

/// The time limit for the remaining bytes of a request.
pub(crate) struct Deadline<'p> {
    /// The time at which the worker first waited.
    since: Option<Instant>,
    limit: Duration,
    /// Returns whether the wait has to end now because other requests wait for memory that this
    /// request holds.
    hurry: &'p dyn Fn() -> bool,
}

impl<'p> Deadline<'p> {
    /// Returns the deadline for the remaining `len` bytes of a request.
    pub(crate) fn for_rest(len: usize, hurry: &'p dyn Fn() -> bool) -> Self {
        let limit = REST_WITHIN + Duration::from_secs(len as u64 / REST_BYTES_PER_SECOND);
        Deadline { since: None, limit, hurry }
    }

    /// Returns an error if the deadline has passed. The deadline's time begins at the first call. A
    /// caller that waits repeatedly calls this function for each wait.
    fn check(&mut self) -> Result<(), End> {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited > self.limit || (self.hurry)() { Err(Fault::Stalled.into()) } else { Ok(()) }
    }
}

impl Input {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Input { buf: Buffer::new(INPUT_BUFFER)?, start: 0, end: 0 })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Receives bytes once, and appends the bytes to the buffer. Returns whether any bytes have
    /// arrived. Returns an [`End`] if the client has closed the connection.
    pub(crate) fn receive(&mut self, stream: &impl Stream) -> Result<bool, End> {
        if self.end == self.buf.len() {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let received = receive(stream, &mut self.buf[self.end..])?;
        self.end += received.unwrap_or(0);
        match received {
            Some(0) if self.start == self.end => Err(End::Left),
            Some(0) => Err(ended()),
            _ => Ok(received.is_some()),
        }
    }

    /// Returns whether bytes of a request have arrived, or arrive during one wait.
    pub(crate) fn has_bytes(&mut self, stream: &impl Stream) -> Result<bool, End> {
        Ok(self.start < self.end || self.receive(stream)?)
    }

    /// Waits for the next request's header, and returns the header. The time limit starts with the
    /// header's first byte. Between requests, a client is allowed to be silent for any time.
    /// `on_wait` is called before each wait, which lasts at most a second.
    pub(crate) fn wait_for_header(
        &mut self,
        stream: &impl Stream,
        on_wait: impl Fn(),
    ) -> Result<Request, End> {
        let mut deadline = Deadline::for_rest(REQUEST_HEADER, &|| false);
        loop {
            if let Some(request) = self.header() {
                return Ok(request?);
            }
            if self.start < self.end {
                deadline.check()?;
            }
            on_wait();
            self.receive(stream)?;
        }
    }

    /// Returns the next request's header, if it has arrived.
    pub(crate) fn header(&self) -> Option<Result<Request, Fault>> {
        self.bytes().first_chunk().map(Request::decode)
    }

    /// Returns whether the next request, whose header is `request`, has arrived with its payload.
    pub(crate) fn has_whole(&self, request: &Request) -> bool {
        self.bytes().len() >= REQUEST_HEADER + request.payload() as usize
    }

    /// Returns the number of requests that have arrived completely, at most `most`.
    pub(crate) fn whole_requests(&self, most: usize) -> usize {
        let mut rest = self.bytes();
        let mut count = 0;
        while let Some(Ok(request)) = rest.first_chunk().map(Request::decode)
            && let Some((_, behind)) =
                rest.split_at_checked(REQUEST_HEADER + request.payload() as usize)
            && count < most
        {
            (rest, count) = (behind, count + 1);
        }
        count
    }

    /// Fills `payload` with bytes from the buffer, and receives the remaining bytes directly into
    /// `payload`.
    pub(crate) fn take(
        &mut self,
        stream: &impl Stream,
        payload: &mut [u8],
        mut deadline: Deadline<'_>,
    ) -> Result<(), End> {
        let here = payload.len().min(self.end - self.start);
        payload[..here].copy_from_slice(&self.bytes()[..here]);
        self.consume(here);
        let mut rest = &mut payload[here..];
        while !rest.is_empty() {
            let received = receive(stream, rest)?;
            if received == Some(0) {
                return Err(ended());
            }
            rest = &mut rest[received.unwrap_or(0)..];
            if !rest.is_empty() {
                deadline.check()?;
            }
        }
        Ok(())
    }

    /// Receives and drops the next `len` bytes: the payload of an invalid request.
    pub(crate) fn skip(&mut self, stream: &impl Stream, len: usize) -> Result<(), End> {
        let mut deadline = Deadline::for_rest(len, &|| false);
        let mut left = len;
        loop {
            let here = left.min(self.end - self.start);
            self.consume(here);
            left -= here;
            if left == 0 {
                return Ok(());
            }
            deadline.check()?;
            self.receive(stream)?;
        }
    }
}

/// Returns the number of bytes received, or `None` if no bytes arrived in one wait.
fn receive(stream: &impl Stream, buf: &mut [u8]) -> Result<Option<usize>, End> {
    match stream.receive(buf) {
        Ok(received) => Ok(Some(received)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the [`End`] of a connection that the client closed within a request.
fn ended() -> End {
    End::Broken(ErrorKind::UnexpectedEof.into())
}

impl From<ErrorKind> for End {
    fn from(kind: ErrorKind) -> Self {
        End::Broken(io::Error::from(kind))
    }
}
