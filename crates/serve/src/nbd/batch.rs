//! Requests that a worker takes together: received by one call, answered by one.

use super::buffer::Buffer;
use super::execute::Executor;
use super::export::ReplyStyle;
use super::fault::End;
use super::handshake::Terms;
use super::input::{Input, Patience};
use super::large::{Large, LargeBuffer};
use super::reply::{Replies, SHORT_MAX, read_header};
use super::request::{Command, Request};
use super::stream::Stream;
use super::wire::*;
use std::io;
use std::ops::Range;

/// The longest read that is answered at once, and write that is received without memory shared with others.
pub(crate) const PART: usize = 256 << 10;

/// Bytes of a worker's buffer: payloads in front, replies behind them.
pub(crate) const BUFFER: usize = PART + 2 * SHORT_MAX;

/// Most requests taken together.
const REQUESTS: usize = 64;

/// From so many bytes to be compressed on, another worker receives meanwhile. Those to be decompressed count a quarter,
/// those to be freed a 64th.
const HEAVY: usize = 32 << 10;

/// A worker's requests and its buffer.
pub(crate) struct Batch<'l> {
    tasks: Vec<Task>,
    buffer: Buffer,
    /// Bytes of the buffer that are payloads.
    payloads: usize,
    /// Bytes that replies will take at most.
    replies: usize,
    /// The payload of a write that is too long for the buffer.
    large: Option<LargeBuffer<'l>>,
    weight: usize,
    /// Whether it is one request that may have to wait for what lies elsewhere.
    may_wait: bool,
    has_left: bool,
}

struct Task {
    request: Request,
    command: Result<Command, ErrorCode>,
    /// Where its payload lies.
    payload: Range<usize>,
}

impl<'l> Batch<'l> {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Batch {
            tasks: Vec::with_capacity(REQUESTS),
            buffer: Buffer::new(BUFFER)?,
            payloads: 0,
            replies: 0,
            large: None,
            weight: 0,
            may_wait: false,
            has_left: false,
        })
    }

    /// Whether the client said that it would send no more.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left
    }

    /// Whether it takes long enough that another worker should receive meanwhile.
    pub(crate) fn is_heavy(&self) -> bool {
        self.weight >= HEAVY || self.may_wait
    }

    /// The one request it has, if that is a read in several parts.
    pub(crate) fn long_read(&self) -> Option<&Request> {
        let first = self.tasks.first()?;
        let is_long = first.command == Ok(Command::Read) && first.request.len as usize > PART;
        is_long.then_some(&first.request)
    }

    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Waits for requests and takes one of `workers` parts of those that are here.
    pub(crate) fn gather(
        &mut self,
        input: &mut Input,
        stream: &impl Stream,
        (terms, large): (&Terms, &'l Large),
        workers: usize,
    ) -> Result<(), End> {
        self.tasks.clear();
        (self.payloads, self.replies, self.large, self.weight) = (0, 0, None, 0);
        self.may_wait = false;
        let mut request = input.wait_for_header(stream)?;
        let share = input.requests(REQUESTS).div_ceil(workers);
        loop {
            if request.kind == CMD_DISC {
                self.has_left = true;
                return Ok(());
            }
            self.take(request, input, stream, (terms, large))?;
            match input.header() {
                Some(Ok(next))
                    if self.tasks.len() < share
                        && !self.may_wait
                        && self.fits(&next, input, terms) =>
                {
                    request = next;
                }
                // What can't be is found again when it comes first.
                _ => return Ok(()),
            }
        }
    }

    /// Whether a request is here whole, there is room for it beside the others, and it does not make them wait.
    fn fits(&self, request: &Request, input: &Input, terms: &Terms) -> bool {
        let needed =
            request.payload() as usize + room(request, request.command(terms), terms.replies);
        self.large.is_none()
            && input.holds(request)
            && !may_wait(request, request.command(terms), terms)
            && self.payloads + self.replies + needed <= BUFFER
    }

    fn take(
        &mut self,
        request: Request,
        input: &mut Input,
        stream: &impl Stream,
        (terms, large): (&Terms, &'l Large),
    ) -> Result<(), End> {
        input.consume(REQUEST_HEADER);
        let mut command = request.command(terms);
        let len = request.payload() as usize;
        let start = self.payloads;
        if command.is_err() {
            input.skip(stream, len)?;
        } else if len > PART {
            match large.get(len) {
                Ok(mut buffer) => {
                    buffer.fill(|payload, is_late| {
                        input.take(stream, payload, Patience::for_rest(len, is_late))
                    })?;
                    self.large = Some(buffer);
                }
                // Others may be answered all the same.
                Err(_) => {
                    input.skip(stream, len)?;
                    command = Err(ErrorCode::Nomem);
                }
            }
        } else {
            let payload = &mut self.buffer[start..start + len];
            input.take(stream, payload, Patience::for_rest(len, &|| false))?;
            self.payloads += len;
        }
        if command == Ok(Command::Read)
            && request.flags & CMD_FLAG_DF != 0
            && request.len as usize > PART
        {
            command = Err(ErrorCode::Overflow);
        }
        self.replies += room(&request, command, terms.replies);
        self.may_wait = may_wait(&request, command, terms);
        self.weight += match command {
            Ok(Command::Write) => len,
            Ok(Command::Read) => request.len as usize / 4,
            Ok(Command::Flush) | Err(_) => 0,
            // Of many blocks something is to be done, or looked at.
            Ok(_) => request.len as usize / 64,
        };
        self.tasks.push(Task { request, command, payload: start..self.payloads });
        Ok(())
    }

    /// Serves all, and returns the answers.
    pub(crate) fn execute(&mut self, executor: Executor<'_>) -> &[u8] {
        let (payloads, room) = self.buffer.split_at_mut(self.payloads);
        let mut replies = Replies::new(room);
        for Task { request, command, payload } in &self.tasks {
            let payload = match &self.large {
                Some(large) => large.bytes(),
                None => &payloads[payload.clone()],
            };
            executor.execute(request, *command, payload, &mut replies);
        }
        self.large = None;
        replies.into_bytes()
    }
}

/// Whether a request may have to wait for what lies elsewhere. What is freed whole needs not.
fn may_wait(request: &Request, command: Result<Command, ErrorCode>, terms: &Terms) -> bool {
    let needs_data = matches!(
        command,
        Ok(Command::Read | Command::Write | Command::WriteZeroes | Command::Punch)
    );
    needs_data && terms.export.disk.may_wait(request.offset, request.len.into())
}

/// Bytes that the answer to a request takes at most.
fn room(request: &Request, command: Result<Command, ErrorCode>, style: ReplyStyle) -> usize {
    match command {
        Ok(Command::Read) => read_header(style) + request.len as usize,
        Ok(Command::BlockStatus { .. }) => SHORT_MAX,
        _ => CHUNK_HEADER + 6,
    }
}
