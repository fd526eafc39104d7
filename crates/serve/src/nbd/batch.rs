//! Batches: groups of requests that a worker takes, carries out and answers together.

use super::bounds::{DONE_MAX, HEAVY_BYTES, READ_PART, REQUESTS, SHORT_MAX, WORKER_BUFFER};
use super::buffer::Buffer;
use super::disconnect::End;
use super::execute::Executor;
use super::handshake::Terms;
use super::input::{Deadline, Input};
use super::large_writes::{LargeWrite, LargeWrites};
use super::reply::{Replies, read_header};
use super::request::{Command, Kind, Request};
use super::stream::Stream;
use super::wire::*;
use std::io;
use std::ops::Range;

/// The memory of a worker for one batch: tasks, payloads and replies.
pub(crate) struct WorkerBuffer {
    tasks: Vec<Task>,
    buffer: Buffer,
}

/// The requests that a worker took and has to answer: short requests, or a single long request.
pub(crate) enum Batch<'r, 'l> {
    Short(Short<'r>),
    LongRead {
        request: Request,
        /// The buffer for one part of the reply.
        room: &'r mut [u8],
    },
    LongWrite {
        request: Request,
        payload: LargeWrite<'l>,
        /// The buffer for the reply.
        room: &'r mut [u8],
    },
}

/// Short requests, whose replies are sent by one call.
pub(crate) struct Short<'r> {
    tasks: &'r mut Vec<Task>,
    buffer: &'r mut [u8],
    /// The number of bytes of payloads, which lie at the beginning of the buffer.
    payloads: usize,
    /// The maximum number of bytes that all replies can take.
    replies: usize,
    /// The sum of the tasks' weights.
    weight: usize,
    /// Whether the batch is a single request that may have to wait for the backing store.
    may_wait: bool,
}

/// A request, its command, and its payload and costs.
struct Task {
    request: Request,
    command: Result<Command, ErrorCode>,
    /// The range of the payload in the buffer.
    payload: Range<usize>,
    /// The cost of the request, expressed as a number of bytes to compress.
    weight: usize,
    /// The maximum number of bytes that the reply can take.
    reply_max: usize,
    /// Whether the request may have to wait for the backing store.
    may_wait: bool,
}

impl Task {
    /// Creates a task whose payload has not been received yet.
    fn new(request: Request, command: Result<Command, ErrorCode>, terms: &Terms) -> Self {
        let len = request.len as usize;
        let (needs_data, weight, reply_max) = match command {
            Ok(Command::Read) => (true, len / 4, read_header(terms.replies) + len),
            Ok(Command::Write) => (true, len, DONE_MAX),
            // The cost of commands without a payload is proportional to the number of blocks in the
            // range. Zeroing may read the first and the last block, if the range covers only a part
            // of them.
            Ok(Command::Punch | Command::WriteZeroes) => (true, len / 64, DONE_MAX),
            Ok(Command::BlockStatus { .. }) => (false, len / 64, SHORT_MAX),
            Ok(Command::Flush) | Err(_) => (false, 0, DONE_MAX),
        };
        let disk = &terms.export.disk;
        let may_wait = needs_data && disk.may_wait(request.offset, request.len.into());
        Task { request, command, payload: 0..0, weight, reply_max, may_wait }
    }
}

/// The kind of batch that contains a request.
enum Class {
    /// A short request, or the error that answers an invalid request.
    Short(Result<Command, ErrorCode>),
    LongRead,
    LongWrite,
}

impl Class {
    fn of(request: &Request, terms: &Terms) -> Self {
        let is_long = request.len as usize > READ_PART;
        let command = request.command(terms);
        match command {
            Ok(Command::Read) if is_long => Class::LongRead,
            Ok(Command::Write) if is_long => Class::LongWrite,
            Ok(
                Command::Read
                | Command::Write
                | Command::Flush
                | Command::Punch
                | Command::WriteZeroes
                | Command::BlockStatus { .. },
            )
            | Err(_) => Class::Short(command),
        }
    }
}

impl WorkerBuffer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(WorkerBuffer {
            tasks: Vec::with_capacity(REQUESTS),
            buffer: Buffer::new(WORKER_BUFFER)?,
        })
    }

    /// Waits for a request, and takes it with a share of the requests that have arrived. The share
    /// is `1 / workers`, so that other workers get equal shares. Returns [`End::Left`] when the
    /// client's DISC is the next request. All requests before DISC were taken earlier.
    pub(crate) fn next_batch<'l>(
        &mut self,
        input: &mut Input,
        stream: &impl Stream,
        (terms, large): (&Terms, &'l LargeWrites),
        workers: usize,
    ) -> Result<Batch<'_, 'l>, End> {
        let first = input.wait_for_header(stream, || large.release_idle())?;
        if first.kind == Some(Kind::Disc) {
            return Err(End::Left);
        }
        let share = input.whole_requests(REQUESTS).div_ceil(workers);
        let command = match Class::of(&first, terms) {
            Class::Short(command) => command,
            Class::LongRead => {
                input.consume(REQUEST_HEADER);
                return Ok(Batch::LongRead { request: first, room: &mut self.buffer });
            }
            Class::LongWrite => {
                let len = first.payload() as usize;
                match large.get(len) {
                    Ok(mut payload) => {
                        input.consume(REQUEST_HEADER);
                        payload.fill(|payload, is_late| {
                            input.take(stream, payload, Deadline::for_rest(len, is_late))
                        })?;
                        let room = &mut self.buffer;
                        return Ok(Batch::LongWrite { request: first, payload, room });
                    }
                    // If memory for a write's payload can't be allocated, the write fails with an
                    // error, and the connection continues.
                    Err(_) => Err(ErrorCode::Nomem),
                }
            }
        };
        let mut short = Short::new(self);
        short.take(Task::new(first, command, terms), input, stream)?;
        while let Some(task) = short.next(input, share, terms) {
            short.take(task, input, stream)?;
        }
        Ok(Batch::Short(short))
    }
}

impl Batch<'_, '_> {
    /// Returns whether serving the batch takes so long that another worker should receive at the
    /// same time.
    pub(crate) fn is_heavy(&self) -> bool {
        match self {
            Batch::Short(short) => short.weight >= HEAVY_BYTES || short.may_wait,
            Batch::LongRead { .. } | Batch::LongWrite { .. } => true,
        }
    }
}

impl<'r> Short<'r> {
    fn new(room: &'r mut WorkerBuffer) -> Self {
        room.tasks.clear();
        let (tasks, buffer) = (&mut room.tasks, &mut *room.buffer);
        Short { tasks, buffer, payloads: 0, replies: 0, weight: 0, may_wait: false }
    }

    /// Returns the next request if it belongs to this batch. The request must have arrived
    /// completely, and its payload and reply must fit. The request must not delay the other
    /// requests of the batch.
    fn next(&self, input: &Input, share: usize, terms: &Terms) -> Option<Task> {
        if self.tasks.len() >= share || self.may_wait {
            return None;
        }
        // An invalid header or DISC becomes the first request of the next batch.
        let request = input.header()?.ok().filter(|request| request.kind != Some(Kind::Disc))?;
        let Class::Short(command) = Class::of(&request, terms) else { return None };
        let task = Task::new(request, command, terms);
        let needed = request.payload() as usize + task.reply_max;
        let fits = input.has_whole(&request)
            && !task.may_wait
            && self.payloads + self.replies + needed <= WORKER_BUFFER;
        fits.then_some(task)
    }

    /// Adds a task to the batch, and receives its payload. The payload of an invalid request is
    /// skipped.
    fn take(&mut self, task: Task, input: &mut Input, stream: &impl Stream) -> Result<(), End> {
        input.consume(REQUEST_HEADER);
        let (start, len) = (self.payloads, task.request.payload() as usize);
        if task.command.is_err() {
            input.skip(stream, len)?;
        } else {
            let payload = &mut self.buffer[start..start + len];
            input.take(stream, payload, Deadline::for_rest(len, &|| false))?;
            self.payloads += len;
        }
        self.replies += task.reply_max;
        self.may_wait = task.may_wait;
        self.weight += task.weight;
        self.tasks.push(Task { payload: start..self.payloads, ..task });
        Ok(())
    }

    /// Carries out all requests, and returns the replies.
    pub(crate) fn execute(self, executor: Executor<'_>) -> &'r [u8] {
        let Short { tasks, buffer, payloads, .. } = self;
        let (payloads, room) = buffer.split_at_mut(payloads);
        let mut replies = Replies::new(room);
        for Task { request, command, payload, .. } in tasks.iter() {
            executor.execute(request, *command, &payloads[payload.clone()], &mut replies);
        }
        replies.into_bytes(tasks.len())
    }
}
