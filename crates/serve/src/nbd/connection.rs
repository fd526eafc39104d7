//! One client's connection: haggling on one thread, requests on several.
//!
//! ```text
//!   receiving: one worker waits for requests and takes some of them; if these take long, or more are here, another
//!              one receives meanwhile
//!   serving:   each worker serves its own, in any order
//!   replying:  one worker at a time sends the answers to all of its own
//! ```
//!
//! Lock order: input, then output. A client that takes no replies stops who replies, then who wait to, then who receives.

use super::batch::{self, Batch, PART};
use super::execute::Executor;
use super::export::{Exports, ReplyStyle};
use super::fault::{End, Fault};
use super::handshake::{Handshake, Step, Terms};
use super::input::Input;
use super::large::Large;
use super::reply::{DataPart, Replies};
use super::request::Request;
use super::stream::{Stream, TAKEN_WITHIN};
use super::wire::SIMPLE_HEADER;
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

/// Bytes of address space that a worker takes, with what guards its stack.
pub(crate) const WORKER_BYTES: usize = STACK + batch::BUFFER + (64 << 10);

/// What all connections share.
pub(crate) struct Service {
    pub(crate) exports: Exports,
    pub(crate) large: Large,
    pub(crate) stop: AtomicBool,
    /// Threads that serve a connection's requests.
    pub(crate) workers: usize,
}

/// A connection on which requests come.
struct Connection<'c, S> {
    service: &'c Service,
    stream: &'c S,
    terms: &'c Terms,
    /// `None` when no more is to be received.
    input: Mutex<Option<Input>>,
    output: Mutex<()>,
    end: Mutex<Option<End>>,
}

/// Serves a client until it leaves or is left. `chosen` is called when it has its export, and says whether it is let in.
pub(crate) fn serve(
    service: &Service,
    stream: &impl Stream,
    chosen: impl FnOnce(&Terms) -> bool,
) -> End {
    let mut input = match Input::new() {
        Ok(input) => input,
        Err(error) => return End::Broken(error),
    };
    let terms = match haggle(&service.exports, stream, &mut input) {
        Ok(terms) => terms,
        // Who only looked whether someone listens is not worth a word.
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
        output: Mutex::new(()),
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
                if let Ok(batch) = Batch::new() {
                    connection.work(Ok(batch));
                }
            });
        }
        connection.work(Batch::new());
    });
    connection.end.into_inner().unwrap_or(End::Left)
}

/// Haggles until an export is chosen. Requests may lie in the input already.
fn haggle(exports: &Exports, stream: &impl Stream, input: &mut Input) -> Result<Terms, End> {
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
    /// Serves requests until there are no more. Without a batch there is no connection.
    fn work<'s>(&'s self, batch: io::Result<Batch<'s>>) {
        let _guard = HangUpOnPanic(self.stream);
        let served = batch.map_err(End::from).and_then(|mut batch| self.serve_all(&mut batch));
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

    fn serve_all<'s>(&'s self, batch: &mut Batch<'s>) -> Result<(), End> {
        loop {
            let mut input = self.input.lock();
            while let Some(received) = input.as_mut() {
                let gathered = batch.gather(
                    received,
                    self.stream,
                    (self.terms, &self.service.large),
                    self.service.workers,
                );
                let has_more = received.header().is_some();
                if gathered.is_err() || batch.has_left() {
                    *input = None;
                }
                gathered?;
                if batch.is_heavy() || has_more {
                    break;
                }
                // So short a batch is not worth waking another worker.
                self.answer(batch)?;
            }
            if input.is_none() && !batch.has_left() {
                return Ok(());
            }
            drop(input);
            self.answer(batch)?;
            if batch.has_left() {
                return Err(End::Left);
            }
        }
    }

    /// Serves a batch.
    fn answer(&self, batch: &mut Batch<'_>) -> Result<(), End> {
        let executor = Executor { terms: self.terms, stop: &self.service.stop };
        if let Some(request) = batch.long_read() {
            return self.read_in_parts(executor, *request, batch.buffer());
        }
        let replies = batch.execute(executor);
        let _output = self.output.lock();
        self.stream.send_all(replies, TAKEN_WITHIN)
    }

    /// Reads part by part. The parts of a simple reply belong together; others may be sent between those of a structured
    /// one.
    fn read_in_parts(
        &self,
        executor: Executor<'_>,
        request: Request,
        room: &mut [u8],
    ) -> Result<(), End> {
        let style = self.terms.replies;
        let end = request.offset + u64::from(request.len);
        let mut at = request.offset;
        let mut output: Option<MutexGuard<'_, ()>> = None;
        while at < end {
            // Parts end between blocks, so that none is decompressed for two.
            let len = (PART as u64 - at % PART as u64).min(end - at);
            let mut replies = Replies::new(room);
            let read =
                executor.read_part(&request, DataPart { at, len: len as usize }, &mut replies);
            if let Err(code) = read {
                if style == ReplyStyle::Simple && at > request.offset {
                    return Err(Fault::Unreadable.into());
                }
                replies.error(&request, style, code);
            }
            let bytes = replies.into_bytes();
            let is_continued = style == ReplyStyle::Simple && at > request.offset;
            let bytes = if is_continued { &bytes[SIMPLE_HEADER..] } else { bytes };
            let sending = output.take().unwrap_or_else(|| self.output.lock());
            self.stream.send_all(bytes, TAKEN_WITHIN)?;
            output = (style == ReplyStyle::Simple).then_some(sending);
            at = if read.is_ok() { at + len } else { end };
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
