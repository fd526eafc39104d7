//! One client's connection: negotiation on one thread, requests on several.
//!
//! ```text
//!   receiving: one worker waits for requests and takes a batch; if the batch takes long, or more
//!              requests have arrived, another worker receives while the batch is served: one that
//!              waits for that, or else a new one
//!   serving:   the workers serve their batches side by side
//!   replying:  one worker at a time sends the replies to its batch
//! ```
//!
//! No lock is held while a worker receives or serves. A client that receives no replies blocks the
//! worker that sends to this client. Other workers with replies for the client then also block,
//! until no worker receives the client's requests.

#[cfg(test)]
mod tests;

use super::batch::{Batch, WorkerBuffer};
use super::bounds::WORKER_BUFFER;
use super::disconnect::{End, Fault};
use super::execute::Executor;
use super::export::Exports;
use super::extra_workers::{ExtraWorker, ExtraWorkers};
use super::handshake::{Handshake, Step, Terms};
use super::input::Input;
use super::large_writes::LargeWrites;
use super::receiving::Receiving;
use super::reply::Replies;
use super::request::Command;
use super::sending::Sending;
use super::stream::Stream;
pub use crate::policy::WORKER_RESERVE;
use crate::policy::{BESIDE_STACK, HANDSHAKE_WITHIN, IDLE_WITHIN, WORKER_STACK};
use rustix_futex_sync::Mutex;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, Scope};
use std::time::Instant;
use zram::room;

/// The number of bytes of address space that a worker takes, including the guard of its stack.
pub(crate) const WORKER_BYTES: usize = WORKER_STACK + WORKER_BUFFER + BESIDE_STACK;

/// The part of the server that all connections share.
pub(crate) struct Service {
    pub(crate) exports: Exports,
    pub(crate) large: LargeWrites,
    pub(crate) extra_workers: ExtraWorkers,
    /// True when the server is ending.
    pub(crate) stop: AtomicBool,
    /// The maximum number of threads that serve the requests of one connection.
    pub(crate) workers: usize,
}

/// A connection whose client has chosen an export, and now sends requests.
struct Connection<'c, S> {
    service: &'c Service,
    stream: &'c S,
    terms: &'c Terms,
    receiving: Receiving,
    sending: Sending<'c, S>,
    /// The number of the connection's extra workers.
    extra_workers: AtomicUsize,
    /// The first reason to end the connection, if any.
    end: Mutex<Option<End>>,
}

/// Serves a client until its connection ends. Returns how the connection ended. After the client
/// has chosen an export, calls `admit` before the reply. `admit` returns whether the client is
/// admitted.
pub(crate) fn serve(service: &Service, stream: &impl Stream, admit: impl FnMut() -> bool) -> End {
    let mut input = match Input::new() {
        Ok(input) => input,
        Err(error) => return End::Broken(error),
    };
    let terms = match negotiate(&service.exports, stream, &mut input, admit) {
        Ok(terms) => terms,
        // A connection that breaks in the handshake is not logged, because a client that only
        // checks whether the server runs can cause this.
        Err(End::Broken(_)) => return End::Left,
        Err(end) => return end,
    };
    let connection = Connection {
        service,
        stream,
        terms: &terms,
        receiving: Receiving::new(input),
        sending: Sending::new(stream),
        extra_workers: AtomicUsize::new(0),
        end: Mutex::new(None),
    };
    thread::scope(|scope| connection.work(scope, WorkerBuffer::new(), None));
    service.large.release();
    connection.end.into_inner().unwrap_or(End::Left)
}

/// Performs the handshake, until the client has chosen an export and `admit` has returned true. The
/// client's first requests may remain in `input`. No request of a refused client is carried out.
fn negotiate(
    exports: &Exports,
    stream: &impl Stream,
    input: &mut Input,
    mut admit: impl FnMut() -> bool,
) -> Result<Terms, End> {
    let begun = Instant::now();
    let mut out = Vec::new();
    let mut handshake = Handshake::new(exports, &mut out);
    loop {
        let advanced = handshake.advance(input.bytes(), &mut out);
        // After the reply, the client can no longer be refused, or evicted in favor of another
        // client.
        if matches!(advanced, Ok((_, Step::Requests(_)))) && !admit() {
            return Err(End::Left);
        }
        // The answers are sent even if the connection then ends.
        stream.send_all(&out, HANDSHAKE_WITHIN)?;
        out.clear();
        let (taken, step) = advanced?;
        input.consume(taken);
        if let Step::Requests(terms) = step {
            return Ok(terms);
        }
        // More options may have arrived already.
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
    /// Serves requests until the connection ends, or until the extra worker `extra` is not needed
    /// any more. If `room` is an error instead of a buffer, the connection ends at once.
    fn work<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        room: io::Result<WorkerBuffer>,
        extra: Option<ExtraWorker<'_>>,
    ) {
        let _guard = EndOnPanic(self);
        // The buffer is dropped before `extra`, because only the holder of `extra` is allowed to
        // have a buffer.
        let serve_all = |mut room| self.serve_all(scope, &mut room, extra.as_ref());
        if let Err(end) = room.map_err(End::from).and_then(serve_all) {
            let has_left = matches!(end, End::Left);
            // The reason is recorded before the socket is shut down. The shutdown of the socket
            // makes the other workers fail for another reason.
            self.end.lock().get_or_insert(end);
            self.receiving.end();
            if !has_left {
                // Shuts the socket down, because other workers may be waiting for the client. After
                // DISC, the socket stays open, because workers may still have replies to send.
                self.stream.hang_up();
            }
        }
    }

    /// Takes and answers batches until no more requests arrive.
    fn serve_all<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        room: &mut WorkerBuffer,
        extra: Option<&ExtraWorker<'_>>,
    ) -> Result<(), End> {
        let within = extra.map(|_| IDLE_WITHIN);
        while !extra.is_some_and(ExtraWorker::is_surplus)
            && let Some(mut input) = self.receiving.take(within)
        {
            let is_idle = extra.is_some() && !input.has_bytes(self.stream)?;
            if is_idle && self.receiving.is_awaited() {
                self.receiving.pass(input);
                break;
            }
            let batch = loop {
                let large = &self.service.large;
                let (terms, workers) = ((self.terms, large), self.service.workers);
                let batch = room.next_batch(&mut input, self.stream, terms, workers)?;
                if batch.is_heavy() || input.header().is_some() {
                    break batch;
                }
                // This worker answers the batch and keeps the input, because waking another worker
                // would take longer.
                self.answer(batch)?;
            };
            if !self.receiving.is_awaited() {
                self.start_worker(scope);
            }
            self.receiving.pass(input);
            self.answer(batch)?;
        }
        Ok(())
    }

    /// Starts another worker if one is permitted. Otherwise, the present workers serve the
    /// connection more slowly. The caller holds the input.
    fn start_worker<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        if self.extra_workers.load(Relaxed) + 1 >= self.service.workers {
            return;
        }
        let Some(extra) = self.service.extra_workers.take(&self.extra_workers) else { return };
        if !room::is_left(WORKER_BYTES) {
            return;
        }
        let named = thread::Builder::new().name("nbd-worker".to_owned()).stack_size(WORKER_STACK);
        let _ = named.spawn_scoped(scope, move || {
            if let Ok(room) = WorkerBuffer::new() {
                self.work(scope, Ok(room), Some(extra));
            }
        });
    }

    /// Serves a batch, and sends the replies.
    fn answer(&self, batch: Batch<'_, '_>) -> Result<(), End> {
        let executor = Executor { terms: self.terms, stop: &self.service.stop };
        let replies = match batch {
            Batch::Short(short) => short.execute(executor),
            Batch::LongRead { request, room } => {
                return self.sending.read_in_parts(executor, request, room);
            }
            Batch::LongWrite { request, payload, room } => {
                let mut replies = Replies::new(room);
                executor.execute(&request, Ok(Command::Write), payload.bytes(), &mut replies);
                // Other long writes can use the payload's memory while the reply is sent.
                drop(payload);
                replies.into_bytes(1)
            }
        };
        self.sending.send_replies(replies)
    }
}

/// A guard that ends a connection if one of its workers panics, so that its other workers end, too.
/// No other connection is affected.
struct EndOnPanic<'s, 'c, S: Stream>(&'s Connection<'c, S>);

impl<S: Stream> Drop for EndOnPanic<'_, '_, S> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.receiving.end();
            self.0.stream.hang_up();
        }
    }
}
