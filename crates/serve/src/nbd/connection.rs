//! One client's connection: negotiation on one thread, requests on several.
//!
//! ```text
//!   receiving: one worker waits for requests and takes some of them; if these take long, or more
//!              are here, another one receives meanwhile
//!   serving:   each worker serves its own, in any order
//!   replying:  one worker at a time sends the answers to all of its own
//! ```
//!
//! Lock order: input, then output. A client that takes no replies stops the worker that replies,
//! then those that wait to reply, then the one that receives.

#[cfg(test)]
mod tests;

use super::batch::{Batch, WorkerBuffer};
use super::bounds::{READ_PART, WORKER_BUFFER};
use super::disconnect::{End, Fault};
use super::execute::Executor;
use super::export::{Exports, ReplyStyle};
use super::handshake::{Handshake, Step, Terms};
use super::input::Input;
use super::large_writes::LargeWrites;
use super::reply::{DataPart, Replies};
use super::request::{Command, Request};
use super::stream::{Stream, TAKEN_WITHIN};
use rustix_futex_sync::{Mutex, MutexGuard};
use std::io;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};
use zram::room;

/// A client has to choose an export within this time.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of a worker's stack.
pub(crate) const STACK: usize = 512 << 10;

/// Most bytes that a worker has in use at a time of what is small, so is not asked for in a way
/// that can fail: its list of tasks (4 KiB), the states that are looked at together for the extents
/// of a disk (1.5 KiB), its thread, and words of a block. Extents take none: they are told where
/// they are sent from.
pub const WORKER_RESERVE: usize = 20 << 10;

/// Bytes of address space that a worker takes, with what guards its stack.
pub(crate) const WORKER_BYTES: usize = STACK + WORKER_BUFFER + (64 << 10);

/// What all connections share.
pub(crate) struct Service {
    pub(crate) exports: Exports,
    pub(crate) large: LargeWrites,
    pub(crate) stop: AtomicBool,
    /// Threads that serve a connection's requests.
    pub(crate) workers: usize,
}

/// What is sent.
#[derive(Default)]
struct Output {
    /// A reply has begun, and its rest is to come next, or never: nothing else is sent.
    is_amid: bool,
}

/// A connection on which requests come.
struct Connection<'c, S> {
    service: &'c Service,
    stream: &'c S,
    terms: &'c Terms,
    /// `None` when no more is to be received.
    input: Mutex<Option<Input>>,
    output: Mutex<Output>,
    end: Mutex<Option<End>>,
}

/// Serves a client until it leaves or is left. `chosen` is called when it has its export, and says
/// whether it is let in.
pub(crate) fn serve(
    service: &Service,
    stream: &impl Stream,
    chosen: impl FnOnce(&Terms) -> bool,
) -> End {
    let mut input = match Input::new() {
        Ok(input) => input,
        Err(error) => return End::Broken(error),
    };
    let terms = match negotiate(&service.exports, stream, &mut input) {
        Ok(terms) => terms,
        // A client that only looked whether the server listens is not logged.
        Err(End::Broken(_)) => return End::Left,
        Err(end) => return end,
    };
    // What lies in the input already is not served then.
    if !chosen(&terms) {
        return End::Left;
    }
    let connection = Connection {
        service,
        stream,
        terms: &terms,
        input: Mutex::new(Some(input)),
        output: Mutex::default(),
        end: Mutex::new(None),
    };
    thread::scope(|scope| {
        for _ in 1..service.workers {
            // With fewer it goes slower.
            if !room::is_left(WORKER_BYTES) {
                break;
            }
            let named = thread::Builder::new().name("nbd-worker".to_owned()).stack_size(STACK);
            let _ = named.spawn_scoped(scope, || {
                if let Ok(room) = WorkerBuffer::new() {
                    connection.work(Ok(room));
                }
            });
        }
        connection.work(WorkerBuffer::new());
    });
    connection.end.into_inner().unwrap_or(End::Left)
}

/// Haggles until an export is chosen. Requests may lie in the input already.
fn negotiate(exports: &Exports, stream: &impl Stream, input: &mut Input) -> Result<Terms, End> {
    let begun = Instant::now();
    let mut out = Vec::new();
    let mut handshake = Handshake::new(exports, &mut out);
    loop {
        let advanced = handshake.advance(input.bytes(), &mut out);
        // What is answered is sent, whether the connection goes on or not.
        stream.send_all(&out, HANDSHAKE_WITHIN)?;
        out.clear();
        let (taken, step) = advanced?;
        input.consume(taken);
        if let Step::Requests(terms) = step {
            return Ok(terms);
        }
        // There may be more of them here.
        if taken > 0 {
            continue;
        }
        if begun.elapsed() > HANDSHAKE_WITHIN {
            return Err(Fault::Slow.into());
        }
        input.receive(stream)?;
    }
}

impl<S: Stream> Connection<'_, S> {
    /// Serves requests until there are no more. Without room for them there is no connection.
    fn work(&self, room: io::Result<WorkerBuffer>) {
        let _guard = HangUpOnPanic(self.stream);
        let served = room.map_err(End::from).and_then(|mut room| self.serve_all(&mut room));
        if let Err(end) = served {
            let has_left = matches!(end, End::Left);
            // Before others find that the connection has ended, which would be told in its place.
            self.end.lock().get_or_insert(end);
            if !has_left {
                // They may be waiting for the client.
                self.stream.hang_up();
            }
        }
    }

    fn serve_all(&self, room: &mut WorkerBuffer) -> Result<(), End> {
        loop {
            let mut input = self.input.lock();
            let batch = loop {
                let Some(received) = input.as_mut() else { return Ok(()) };
                let large = &self.service.large;
                let gathered = room.next_batch(
                    received,
                    self.stream,
                    (self.terms, large),
                    self.service.workers,
                );
                let has_more = received.header().is_some();
                if gathered.is_err() {
                    *input = None;
                }
                let batch = gathered?;
                if batch.is_heavy() || has_more {
                    break batch;
                }
                // So short a batch is not worth waking another worker.
                self.answer(batch)?;
            };
            drop(input);
            self.answer(batch)?;
        }
    }

    /// Serves a batch.
    fn answer(&self, batch: Batch<'_, '_>) -> Result<(), End> {
        let executor = Executor { terms: self.terms, stop: &self.service.stop };
        let replies = match batch {
            Batch::Short(short) => short.execute(executor),
            Batch::LongRead { request, room } => {
                return self.read_in_parts(executor, request, room);
            }
            Batch::LongWrite { request, payload, room } => {
                let mut replies = Replies::new(room);
                executor.execute(&request, Ok(Command::Write), payload.bytes(), &mut replies);
                // Its memory is for others while this client takes the reply.
                drop(payload);
                replies.into_bytes(1)
            }
        };
        match self.output() {
            Some(mut output) => self.send(&mut output, replies, true),
            None => Ok(()),
        }
    }

    /// What is to be sent to; none once a reply was broken off, as the connection ends then.
    fn output(&self) -> Option<MutexGuard<'_, Output>> {
        Some(self.output.lock()).filter(|output| !output.is_amid)
    }

    /// Sends replies, or the part of one that is its last or not. Where that fails nothing else is
    /// sent any more: the client would take it for the rest.
    fn send(&self, output: &mut Output, bytes: &[u8], is_last: bool) -> Result<(), End> {
        output.is_amid = true;
        self.stream.send_all(bytes, TAKEN_WITHIN)?;
        output.is_amid = !is_last;
        Ok(())
    }

    /// Reads part by part. The parts of a simple reply belong together; others may be sent between
    /// those of a structured one.
    fn read_in_parts(
        &self,
        executor: Executor<'_>,
        request: Request,
        room: &mut [u8],
    ) -> Result<(), End> {
        let style = self.terms.replies;
        let end = request.offset + u64::from(request.len);
        let mut at = request.offset;
        let mut output: Option<MutexGuard<'_, Output>> = None;
        while at < end {
            // Parts end between blocks, so that none is decompressed for two.
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

/// A worker that panics takes its connection with it, and nothing else.
struct HangUpOnPanic<'s, S: Stream>(&'s S);

impl<S: Stream> Drop for HangUpOnPanic<'_, S> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.hang_up();
        }
    }
}
