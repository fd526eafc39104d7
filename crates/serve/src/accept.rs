//! Accepts connections.

use crate::address::{Listening, SocketFile};
use crate::log::Log;
use crate::socket::Socket;
use crate::spawn::spawn;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, Shutdown, SocketFlags};
use std::io;
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
    socket: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
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
        let (socket, stop) = (Arc::new(socket), Arc::new(AtomicBool::new(false)));
        let (listener, ends) = (socket.clone(), stop.clone());
        let thread = spawn("accept", STACK, move || {
            while !ends.load(Relaxed) {
                match net::accept_with(&*listener, SocketFlags::CLOEXEC) {
                    Ok(accepted) => match Socket::new(accepted, tick) {
                        Ok(socket) => client(socket),
                        // The client has gone already.
                        Err(_) => continue,
                    },
                    Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => {}
                    Err(_) if ends.load(Relaxed) => {}
                    Err(errno) => {
                        log.line(format_args!("can't accept a connection: {errno}"));
                        thread::sleep(RETRY_AFTER);
                    }
                }
            }
        })?;
        Ok(Acceptor { socket, stop, thread, file })
    }

    /// Stops accepting connections.
    pub(crate) fn stop(self) {
        drop(self.file);
        self.stop.store(true, Relaxed);
        // Wakes the thread that waits for a connection.
        let _ = net::shutdown(&*self.socket, Shutdown::Both);
        let _ = self.thread.join();
    }
}
