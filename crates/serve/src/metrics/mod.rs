//! A server that answers `GET /metrics` with a text from the caller of this module.
//!
//! The server uses HTTP/1.1 with one request per connection. One thread serves all connections, and
//! never waits for a single client. `httparse` reads the request's head. The memory and time of
//! each client are bounded. With an HTTP library, a client could use up the memory of the process,
//! and the disk would be lost.
//!
//! ```text
//!   backlog of the socket -> CLIENTS places: receiving -> answering -> draining
//!                                            evicted third, second,  first
//! ```
//! The server has places for `CLIENTS` clients. If all places are taken, a new client waits in the
//! socket's backlog until a place is free. A client can be evicted after `METRICS_GRACE`, or as
//! soon as it has received its answer. So a client that keeps its connection open does not exclude
//! other clients. A burst of scrapes is answered one request after another.

mod client;
mod http;

use crate::accept::{Acceptor, Door};
use crate::address::{Address, Listening};
use crate::log::Log;
pub use crate::policy::METRICS_CLIENTS as CLIENTS;
use crate::policy::{
    HTTP_HEAD_MAX, METRICS_ANSWER_RESERVE, METRICS_GRACE, METRICS_NEVER, METRICS_TEXT_RESERVE,
};
use crate::socket::Socket;
use client::Client;
use rustix::event::PollFlags;
use rustix::net::SocketFlags;
use std::io;
use std::time::Instant;

/// The maximum number of bytes of small allocations that all clients together have in use.
pub const RESERVE: usize =
    METRICS_TEXT_RESERVE + CLIENTS * (HTTP_HEAD_MAX + METRICS_ANSWER_RESERVE);

/// The server of metrics.
pub struct Metrics {
    acceptor: Acceptor,
    address: Address,
}

impl Metrics {
    /// Starts the server. `text` returns the metrics, and is called on the server's thread.
    ///
    /// # Errors
    /// Fails if the system refuses a thread.
    pub fn start(
        listening: Listening,
        text: impl Fn() -> String + Send + 'static,
        log: Log,
    ) -> io::Result<Self> {
        let (address, of_clients) = (listening.address().clone(), log.clone());
        let acceptor = Acceptor::run("metrics", listening, log, move |door| {
            Clients { all: Vec::new(), log: of_clients }.serve(&door, &text);
        })?;
        Ok(Metrics { acceptor, address })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Closes all connections.
    pub fn stop(self) {
        self.acceptor.stop();
    }
}

/// The clients that have a place, in the order in which they connected.
struct Clients {
    all: Vec<Client>,
    log: Log,
}

impl Clients {
    /// Serves clients until the acceptor stops.
    fn serve(&mut self, door: &Door, text: &dyn Fn() -> String) {
        while self.wait(door) {
            self.all.retain_mut(|client| client.step(text));
            self.end_late();
            // At most CLIENTS connections are accepted in one pass, because the thread must also
            // serve the earlier clients.
            for _ in 0..CLIENTS {
                if self.room_at().is_some_and(|at| at > Instant::now()) {
                    break;
                }
                let Some(socket) = door.accept(SocketFlags::NONBLOCK) else { break };
                self.make_room();
                let client = Socket::new(socket, METRICS_NEVER).ok().and_then(Client::new);
                self.all.extend(client.and_then(|mut client| client.step(text).then_some(client)));
            }
        }
    }

    /// Waits for events of clients, for new clients if a place is free, and for the end of a
    /// client's time limit. Returns false if the acceptor stops.
    fn wait(&self, door: &Door) -> bool {
        let now = Instant::now();
        let room_at = self.room_at().filter(|at| *at > now);
        let new = if room_at.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let ends = self.all.iter().map(Client::until).chain(room_at).min();
        let timeout = ends.map(|at| at.saturating_duration_since(now));
        door.wait(new, self.all.iter().map(Client::polled), timeout)
    }

    /// Returns the time at which the next client can be accepted, or `None` if a place is free.
    fn room_at(&self) -> Option<Instant> {
        let is_full = self.all.len() >= CLIENTS;
        self.all.iter().map(|client| client.stays_until(METRICS_GRACE)).min().filter(|_| is_full)
    }

    /// Evicts the client with the lowest rank if no place is free.
    fn make_room(&mut self) {
        let now = Instant::now();
        let evictable = |(_, client): &(usize, &Client)| client.stays_until(METRICS_GRACE) <= now;
        let clients = self.all.iter().enumerate().filter(evictable);
        let least = clients.min_by_key(|(_, client)| client.rank()).map(|(nth, _)| nth);
        if let Some(nth) = least.filter(|_| self.all.len() >= CLIENTS) {
            self.refuse(nth, "503 Service Unavailable", "soon, to let another one in");
        }
    }

    /// Ends the connections of clients whose time limit has passed.
    fn end_late(&mut self) {
        let now = Instant::now();
        while let Some(nth) = self.all.iter().position(|client| client.until() <= now) {
            self.refuse(nth, "408 Request Timeout", "in time");
        }
    }

    fn refuse(&mut self, nth: usize, status: &str, when: &str) {
        if let Some(what) = self.all.remove(nth).refuse(status) {
            self.log.line(format_args!("metrics: disconnected a client that {what} {when}"));
        }
    }
}
