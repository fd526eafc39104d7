//! Accepting connections, counting them, and ending them all.

use crate::address::{Listening, SocketFile};
use crate::log::Log;
use crate::socket::Socket;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, Shutdown, SocketFlags};
use rustix_futex_sync::{Condvar, Mutex};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long it is waited where the system has nothing left for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of the stack of who accepts.
const STACK: usize = 256 << 10;

/// Accepts connections on a thread.
pub(crate) struct Acceptor {
    socket: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    /// Goes last, so that who finds the file finds someone who listens.
    file: Option<SocketFile>,
}

impl Acceptor {
    /// Gives each connection to `client`, which must not wait for it. Whoever does is woken after `tick`.
    pub(crate) fn start(
        listening: Listening,
        tick: Duration,
        log: Log,
        client: impl Fn(Socket) + Send + 'static,
    ) -> io::Result<Self> {
        let (socket, file) = listening.into_parts();
        let (socket, stop) = (Arc::new(socket), Arc::new(AtomicBool::new(false)));
        let (listener, ends) = (socket.clone(), stop.clone());
        let named = thread::Builder::new().name("accept".to_owned()).stack_size(STACK);
        let thread = named.spawn(move || {
            while !ends.load(Relaxed) {
                match net::accept_with(&*listener, SocketFlags::CLOEXEC) {
                    Ok(accepted) => match Socket::new(accepted, tick) {
                        Ok(socket) => client(socket),
                        // It is gone already.
                        Err(_) => continue,
                    },
                    Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => {}
                    Err(_) if ends.load(Relaxed) => {}
                    Err(errno) => {
                        log.line(format_args!("a connection can't be accepted: {errno}"));
                        thread::sleep(PAUSE);
                    }
                }
            }
        })?;
        Ok(Acceptor { socket, stop, thread, file })
    }

    /// Accepts no more.
    pub(crate) fn stop(self) {
        drop(self.file);
        self.stop.store(true, Relaxed);
        // Wakes who waits for a connection.
        let _ = net::shutdown(&*self.socket, Shutdown::Both);
        let _ = self.thread.join();
    }
}

/// Connections that are alike, up to some number.
pub(crate) struct Crowd {
    most: usize,
    members: Mutex<Members>,
    left: Condvar,
}

#[derive(Default)]
struct Members {
    next: u64,
    /// For good, and for now.
    has_ended: bool,
    is_closed: bool,
    sockets: HashMap<u64, Arc<Socket>>,
}

/// A member's place: it leaves when this goes.
pub(crate) struct Place {
    crowd: Arc<Crowd>,
    number: u64,
}

/// Nobody is let in until this goes.
pub(crate) struct Closed<'c>(&'c Crowd);

impl Crowd {
    pub(crate) fn new(most: usize) -> Self {
        let sockets = HashMap::with_capacity(most);
        let members = Mutex::new(Members { sockets, ..Members::default() });
        Crowd { most, members, left: Condvar::new() }
    }

    /// One more, if there is room.
    pub(crate) fn enter(self: &Arc<Self>, socket: &Arc<Socket>) -> Option<Place> {
        let mut members = self.members.lock();
        let is_shut = members.has_ended || members.is_closed;
        if is_shut || members.sockets.len() >= self.most {
            return None;
        }
        let number = members.next;
        members.next += 1;
        members.sockets.insert(number, socket.clone());
        Some(Place { crowd: self.clone(), number })
    }

    pub(crate) fn len(&self) -> usize {
        self.members.lock().sockets.len()
    }

    /// Lets none in until what is returned goes; the number of members, if there are any.
    pub(crate) fn close(&self) -> Result<Closed<'_>, usize> {
        let mut members = self.members.lock();
        if members.is_closed || !members.sockets.is_empty() {
            return Err(members.sockets.len());
        }
        members.is_closed = true;
        Ok(Closed(self))
    }

    /// Ends all connections, and lets none in any more.
    pub(crate) fn hang_up(&self) {
        let mut members = self.members.lock();
        members.has_ended = true;
        members.sockets.values().for_each(|socket| socket.hang_up());
    }

    /// Whether all were gone in time.
    pub(crate) fn is_gone_by(&self, until: Instant) -> bool {
        let mut members = self.members.lock();
        while !members.sockets.is_empty() {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            members = self.left.wait_timeout(members, left).0;
        }
        true
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.members.lock().is_closed = false;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.members.lock().sockets.remove(&self.number);
        self.crowd.left.notify_all();
    }
}
