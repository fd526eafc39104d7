//! A client of the metrics' server, and how far its request is. Nothing here waits.
//!
//! ```text
//!   receiving: head of the request -> answering: bytes left to send -> draining: bytes are dropped
//! ```

use super::http::{Asked, HEAD_MAX, parse, plain};
use crate::socket::Socket;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::time::{Duration, Instant};

/// A client must complete its request, and take its answer, in this time each. A scrape takes
/// milliseconds, and Prometheus itself gives up after 10 seconds.
const WITHIN: Duration = Duration::from_secs(5);

/// After its answer, a client has this time to end the connection, and may send this much more.
/// Those bytes are dropped: a connection that is closed with bytes unread takes the answer back.
const DRAINED_WITHIN: Duration = Duration::from_secs(1);
const DRAINED_MAX: usize = 64 << 10;

/// Bytes that are received and dropped at a time.
const DROPPED: usize = 4 << 10;

/// A client's connection, which is not blocking.
pub(super) struct Client {
    socket: Socket,
    state: State,
    came: Instant,
    /// When the present state ends.
    until: Instant,
}

enum State {
    /// Holds the head of the request, as far as it came.
    Receiving(Vec<u8>),
    /// Holds the answer, and how many bytes of it are sent.
    Answering(String, usize),
    /// Holds how many more bytes are dropped.
    Draining(usize),
}

impl Client {
    /// Makes a client that has sent nothing; `None`: there is no memory for its request.
    pub(super) fn new(socket: Socket) -> Option<Self> {
        let mut head = Vec::new();
        head.try_reserve_exact(HEAD_MAX).ok()?;
        let came = Instant::now();
        Some(Client { socket, state: State::Receiving(head), came, until: came + WITHIN })
    }

    /// Goes on as far as it can without waiting; `text` makes the metrics. Returns whether the
    /// client stays.
    pub(super) fn step(&mut self, text: &dyn Fn() -> String) -> bool {
        loop {
            let done = match &mut self.state {
                State::Receiving(head) => receive(&self.socket, head).map(|asked| {
                    asked.map(|asked| (State::Answering(asked.answer(text), 0), WITHIN))
                }),
                State::Answering(answer, sent) => send(&self.socket, answer.as_bytes(), sent)
                    .map(|()| Some((State::Draining(DRAINED_MAX), DRAINED_WITHIN))),
                // A little at a time: other clients wait for the thread.
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

    /// Returns what the client is waited for.
    pub(super) fn polled(&self) -> PollFd<'_> {
        let is_sending = matches!(self.state, State::Answering(..));
        PollFd::new(&self.socket, if is_sending { PollFlags::OUT } else { PollFlags::IN })
    }

    /// Returns when the client's time is over.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Returns until when the client can't be evicted for another one: it has `grace`, unless it
    /// has its answer.
    pub(super) fn stays_until(&self, grace: Duration) -> Instant {
        match self.state {
            State::Draining(_) => self.came,
            State::Receiving(_) | State::Answering(..) => self.came + grace,
        }
    }

    /// Returns a number that is least for the clients that are evicted first.
    pub(super) fn rank(&self) -> usize {
        match self.state {
            State::Draining(_) => 0,
            State::Receiving(_) => 1,
            State::Answering(..) => 2,
        }
    }

    /// Ends a connection with an answer of this status, if the client has none yet. Returns what
    /// the client failed to do, unless it has its whole answer.
    pub(super) fn refuse(self, status: &str) -> Option<&'static str> {
        match self.state {
            State::Receiving(_) => {
                let answer = plain(status, "the request did not come in time; try again\n");
                // Both are for the client alone, which may have left.
                let _ = send(&self.socket, answer.as_bytes(), &mut 0);
                let _ = self.socket.receive(&mut [0; DROPPED]);
                Some("did not send its request")
            }
            State::Answering(..) => Some("did not take its answer"),
            State::Draining(_) => None,
        }
    }
}

/// Receives more of a request's head. Returns what it asks for once it is complete, and `None` if
/// the client has left.
fn receive(socket: &Socket, head: &mut Vec<u8>) -> io::Result<Option<Asked>> {
    let mut some = [0; HEAD_MAX];
    loop {
        let received = socket.receive(&mut some[head.len()..])?;
        if received == 0 {
            return Ok(None);
        }
        // There is room for all of it from the start.
        let from = head.len();
        head.extend_from_slice(&some[from..from + received]);
        match parse(head) {
            None if head.len() == HEAD_MAX => return Ok(Some(Asked::TOO_LONG)),
            None => {}
            asked => return Ok(asked),
        }
    }
}

/// Sends what is left of an answer, and ends this side of the connection.
fn send(socket: &Socket, answer: &[u8], sent: &mut usize) -> io::Result<()> {
    while *sent < answer.len() {
        *sent += socket.send(&answer[*sent..])?;
    }
    socket.end_sending()
}

/// Drops some of what a client sends after its request. Returns whether it may send more.
fn drain(socket: &Socket, left: &mut usize) -> bool {
    match socket.receive(&mut [0; DROPPED]) {
        Ok(received) => {
            *left = left.saturating_sub(received);
            received > 0 && *left > 0
        }
        Err(error) => waits(&error),
    }
}

/// Returns whether a call would have waited, or was interrupted.
fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
