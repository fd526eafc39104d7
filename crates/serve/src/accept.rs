//! Accepts connections.
//!
//! The accepting thread waits for a connection or for the event that ends the thread. The socket is
//! not shut down, because a service manager that passed the socket can keep it open for the next
//! server.

use crate::address::{Listening, SocketFile};
use crate::log::Log;
use crate::policy::{ACCEPT_RETRY_AFTER, ACCEPT_STACK};
use crate::socket::Socket;
use crate::spawn::spawn;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, write};
use rustix::net::{self, SocketFlags};
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Accepts connections on a thread.
pub(crate) struct Acceptor {
    stop: Arc<AtomicBool>,
    /// The eventfd that wakes the accepting thread and makes that thread exit.
    ends: Arc<OwnedFd>,
    thread: JoinHandle<()>,
    /// The socket's file, which is dropped last. A client that finds the file therefore finds a
    /// listening socket.
    file: Option<SocketFile>,
}

/// A listening socket, owned by the thread that accepts its connections.
pub(crate) struct Door {
    socket: OwnedFd,
    stop: Arc<AtomicBool>,
    ends: Arc<OwnedFd>,
    log: Log,
}

impl Acceptor {
    /// Passes each connection to `client`, which must not wait for the connection's data. A thread
    /// that waits for a connection's data is woken after `tick`.
    pub(crate) fn start(
        listening: Listening,
        tick: Duration,
        log: Log,
        client: impl Fn(Socket) + Send + 'static,
    ) -> io::Result<Self> {
        Acceptor::run("accept", listening, log, move |door| {
            while door.wait(PollFlags::IN, [], None) {
                // Some socket options can't be set if the client has already disconnected.
                let socket = door.accept(SocketFlags::empty());
                if let Some(socket) = socket.and_then(|fd| Socket::new(fd, tick).ok()) {
                    client(socket);
                }
            }
        })
    }

    /// Runs `work` with the listening socket on a thread named `name`. `work` must return after
    /// [`Door::wait`] has returned false.
    pub(crate) fn run(
        name: &str,
        listening: Listening,
        log: Log,
        work: impl FnOnce(Door) + Send + 'static,
    ) -> io::Result<Self> {
        let (socket, file) = listening.into_parts();
        // Another process that shares the socket can accept the connection first, so `accept` must
        // not block.
        fcntl_setfl(&socket, fcntl_getfl(&socket)? | OFlags::NONBLOCK)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let door = Door { socket, stop: stop.clone(), ends: ends.clone(), log };
        let thread = spawn(name, ACCEPT_STACK, move || work(door))?;
        Ok(Acceptor { stop, ends, thread, file })
    }

    /// Stops accepting connections.
    pub(crate) fn stop(self) {
        drop(self.file);
        self.stop.store(true, Relaxed);
        // If the write fails, the counter of wake-ups is full, so the thread has been woken
        // already.
        let _ = write(&*self.ends, &1_u64.to_ne_bytes());
        let _ = self.thread.join();
    }
}

impl Door {
    /// Waits until one of `others` is ready, `timeout` has passed, or the acceptor stops. If `new`
    /// is `IN`, also waits for a connection. Returns false if the acceptor stops.
    pub(crate) fn wait<'c>(
        &'c self,
        new: PollFlags,
        others: impl IntoIterator<Item = PollFd<'c>>,
        timeout: Option<Duration>,
    ) -> bool {
        let own = [
            PollFd::from_borrowed_fd(self.socket.as_fd(), new),
            PollFd::from_borrowed_fd(self.ends.as_fd(), PollFlags::IN),
        ];
        let mut all: Vec<_> = own.into_iter().chain(others).collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // A signal wakes the thread early, which is harmless.
        let _ = poll(&mut all, timeout.as_ref());
        !self.stop.load(Relaxed)
    }

    /// Accepts a connection with `flags`, if a connection has arrived. If the system lacks
    /// resources for the connection, logs a line and sleeps for a while.
    pub(crate) fn accept(&self, flags: SocketFlags) -> Option<OwnedFd> {
        match net::accept_with(&self.socket, SocketFlags::CLOEXEC | flags) {
            Ok(accepted) => return Some(accepted),
            Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => {}
            Err(errno) => {
                self.log.line(format_args!("can't accept a connection: {errno}"));
                thread::sleep(ACCEPT_RETRY_AFTER);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::atomic::AtomicUsize;
    use testkit::wait::until;

    #[test]
    fn servers_that_share_a_socket_both_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let start = || {
            let listening = Listening::passed(listener.try_clone().unwrap().into()).unwrap();
            let count = accepted.clone();
            let client = move |_| _ = count.fetch_add(1, Relaxed);
            Acceptor::start(listening, Duration::from_secs(5), Log::new(|_| {}), client).unwrap()
        };
        let acceptors = [start(), start(), start()];
        // Each connection wakes all of the threads, but only one thread accepts the connection.
        for nth in 1..=50 {
            let _client = UnixStream::connect(&path).unwrap();
            until("it is accepted", || accepted.load(Relaxed) == nth);
        }
        let ends = thread::spawn(|| acceptors.into_iter().for_each(Acceptor::stop));
        until("none waits for a client", || ends.is_finished());
    }
}
