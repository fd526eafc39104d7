//! A client of the metrics server, and the progress of the client's request. No call in this file
//! blocks.
//!
//! ```text
//!   receiving: head of the request -> answering: bytes left to send -> draining: bytes are dropped
//! ```

use super::http::{Asked, parse, plain};
use crate::policy::{DRAINED_MAX, DRAINED_STEP, DRAINED_WITHIN, HTTP_HEAD_MAX, METRICS_WITHIN};
use crate::socket::Socket;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::time::{Duration, Instant};

/// A client's nonblocking connection.
pub(super) struct Client {
    socket: Socket,
    state: State,
    came: Instant,
    /// The time at which the time limit of the present state expires.
    until: Instant,
}

enum State {
    /// The server receives the request. The value holds the received part of the request's head.
    Receiving(Vec<u8>),
    /// The server sends the answer. The value holds the answer, and the number of bytes that were
    /// sent.
    Answering(String, usize),
    /// The server drops bytes after the answer. The value is the maximum number of further bytes to
    /// drop.
    Draining(usize),
}

impl Client {
    /// Creates a client that has sent nothing. Returns `None` if memory for the client's request
    /// can't be allocated.
    pub(super) fn new(socket: Socket) -> Option<Self> {
        let mut head = Vec::new();
        head.try_reserve_exact(HTTP_HEAD_MAX).ok()?;
        let came = Instant::now();
        Some(Client { socket, state: State::Receiving(head), came, until: came + METRICS_WITHIN })
    }

    /// Advances the request as far as possible without blocking. `text` returns the metrics.
    /// Returns whether the connection continues.
    pub(super) fn step(&mut self, text: &dyn Fn() -> String) -> bool {
        loop {
            let done = match &mut self.state {
                State::Receiving(head) => receive(&self.socket, head).map(|asked| {
                    asked.map(|asked| (State::Answering(asked.answer(text), 0), METRICS_WITHIN))
                }),
                State::Answering(answer, sent) => send(&self.socket, answer.as_bytes(), sent)
                    .map(|()| Some((State::Draining(DRAINED_MAX), DRAINED_WITHIN))),
                // Only a limited number of bytes is read, because other clients wait for the
                // thread.
                State::Draining(left) => return drain(&self.socket, left),
            };
            match done {
                Ok(Some((state, within))) => {
                    (self.state, self.until) = (state, Instant::now() + within)
                }
                Ok(None) => return false,
                Err(error) => return waits(&error),
            }
        }
    }

    /// Returns the client's socket, with the event for which the server waits.
    pub(super) fn polled(&self) -> PollFd<'_> {
        let is_sending = matches!(self.state, State::Answering(..));
        PollFd::new(&self.socket, if is_sending { PollFlags::OUT } else { PollFlags::IN })
    }

    /// Returns the time at which the client's time limit expires.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Returns the time from which the client can be evicted in favor of another client. If the
    /// whole answer was sent, this is the time at which the client connected. Otherwise, it is that
    /// time plus `grace`.
    pub(super) fn stays_until(&self, grace: Duration) -> Instant {
        match self.state {
            State::Draining(_) => self.came,
            State::Receiving(_) | State::Answering(..) => self.came + grace,
        }
    }

    /// Returns the rank of the client. The client with the lowest rank is evicted first.
    pub(super) fn rank(&self) -> usize {
        match self.state {
            State::Draining(_) => 0,
            State::Receiving(_) => 1,
            State::Answering(..) => 2,
        }
    }

    /// Ends a connection. If no answer was sent yet, sends an answer with `status`. If the client
    /// has not received its whole answer, returns a description of the client's failure.
    pub(super) fn refuse(self, status: &str) -> Option<&'static str> {
        match self.state {
            State::Receiving(_) => {
                let answer = plain(status, "the request did not come in time; try again\n");
                // Errors of both calls are ignored, because the client may have disconnected.
                let _ = send(&self.socket, answer.as_bytes(), &mut 0);
                let _ = self.socket.receive(&mut [0; DRAINED_STEP]);
                Some("did not send its request")
            }
            State::Answering(..) => Some("did not take its answer"),
            State::Draining(_) => None,
        }
    }
}

/// Receives more of a request's head. Returns the parsed request when the head is complete, or
/// `None` if the client has disconnected.
fn receive(socket: &Socket, head: &mut Vec<u8>) -> io::Result<Option<Asked>> {
    let mut some = [0; HTTP_HEAD_MAX];
    loop {
        let received = socket.receive(&mut some[head.len()..])?;
        if received == 0 {
            return Ok(None);
        }
        // The capacity for the whole head was reserved when the client was created.
        let from = head.len();
        head.extend_from_slice(&some[from..from + received]);
        match parse(head) {
            None if head.len() == HTTP_HEAD_MAX => return Ok(Some(Asked::TOO_LONG)),
            None => {}
            asked => return Ok(asked),
        }
    }
}

/// Sends the remaining bytes of an answer, and then shuts down the sending side of the connection.
fn send(socket: &Socket, answer: &[u8], sent: &mut usize) -> io::Result<()> {
    while *sent < answer.len() {
        *sent += socket.send(&answer[*sent..])?;
    }
    socket.end_sending()
}

/// Drops a limited number of bytes after a client's request. Returns whether more bytes can arrive.
fn drain(socket: &Socket, left: &mut usize) -> bool {
    match socket.receive(&mut [0; DRAINED_STEP]) {
        Ok(received) => {
            *left = left.saturating_sub(received);
            received > 0 && *left > 0
        }
        Err(error) => waits(&error),
    }
}

/// Returns whether a call on a socket would have blocked, or was interrupted by a signal.
fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
