//! Accepts connections.
//!
//! The thread waits for a connection or for the end, so the socket need not be shut down: one that
//! the service manager passed is the manager's too, which keeps it for the next server.

use crate::address::{Listening, SocketFile};
use crate::log::Log;
use crate::socket::Socket;
use crate::spawn::spawn;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
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

/// How long the thread waits if the system has no resources left for a connection.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Bytes of the accepting thread's stack.
const STACK: usize = 256 << 10;

/// Accepts connections on a thread.
pub(crate) struct Acceptor {
    stop: Arc<AtomicBool>,
    /// Wakes the thread.
    ends: Arc<OwnedFd>,
    thread: JoinHandle<()>,
    /// Dropped last, so that a client that finds the file finds a listening socket.
    file: Option<SocketFile>,
}

impl Acceptor {
    /// Gives each connection to `client`, which must not wait for the connection. A thread that
    /// waits for one is woken after `tick`.
    pub(crate) fn start(
        listening: Listening,
        tick: Duration,
        log: Log,
        client: impl Fn(Socket) + Send + 'static,
    ) -> io::Result<Self> {
        let (socket, file) = listening.into_parts();
        // Another process that has the socket may accept what this one was woken for.
        fcntl_setfl(&socket, fcntl_getfl(&socket)? | OFlags::NONBLOCK)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (is_over, over) = (stop.clone(), ends.clone());
        let thread = spawn("accept", STACK, move || {
            let mut either = [
                PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(over.as_fd(), PollFlags::IN),
            ];
            while !is_over.load(Relaxed) {
                let accepted = poll(&mut either, None).and_then(|_| {
                    if is_over.load(Relaxed) {
                        return Err(Errno::AGAIN);
                    }
                    net::accept_with(&socket, SocketFlags::CLOEXEC)
                });
                match accepted {
                    Ok(accepted) => match Socket::new(accepted, tick) {
                        Ok(socket) => client(socket),
                        // The client has gone already.
                        Err(_) => continue,
                    },
                    Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => {}
                    Err(errno) => {
                        log.line(format_args!("can't accept a connection: {errno}"));
                        thread::sleep(RETRY_AFTER);
                    }
                }
            }
        })?;
        Ok(Acceptor { stop, ends, thread, file })
    }

    /// Stops accepting connections.
    pub(crate) fn stop(self) {
        drop(self.file);
        self.stop.store(true, Relaxed);
        // It fails only where so many wake-ups are pending that the thread is awake.
        let _ = write(&*self.ends, &1_u64.to_ne_bytes());
        let _ = self.thread.join();
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
        // Each connection wakes all of them, and one has it.
        for nth in 1..=50 {
            let _client = UnixStream::connect(&path).unwrap();
            until("it is accepted", || accepted.load(Relaxed) == nth);
        }
        let ends = thread::spawn(|| acceptors.into_iter().for_each(Acceptor::stop));
        until("none waits for a client", || ends.is_finished());
    }
}
