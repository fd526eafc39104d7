//! Accepting connections, counting them, and ending them all.

use crate::address::{Listening, SocketFile};
use crate::log::Log;
use crate::socket::Socket;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, Shutdown, SocketFlags};
use rustix_futex_sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long it is waited where the system has nothing left for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Who is sent away for another leaves within this time, or the other is refused.
const GONE_WITHIN: Duration = Duration::from_secs(1);
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
    /// By number, so in the order in which they came.
    all: BTreeMap<u64, Member>,
}

struct Member {
    socket: Arc<Socket>,
    standing: Standing,
}

/// Where a member stands with those who want its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has not said yet what it wants, and makes room.
    Silent,
    /// It stays.
    Settled,
    /// It makes room, and has no say any more.
    SentAway,
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
        Crowd { most, members: Mutex::default(), left: Condvar::new() }
    }

    /// One more, if there is room.
    pub(crate) fn enter(self: &Arc<Self>, socket: &Arc<Socket>) -> Option<Place> {
        self.place(&mut self.members.lock(), socket)
    }

    /// One more, and whether it has the place of another: of the one that has been silent for longest, if there is no room,
    /// or `has_room` says that there is none for so many.
    pub(crate) fn press_in(
        self: &Arc<Self>,
        socket: &Arc<Socket>,
        has_room: impl Fn(usize) -> bool,
    ) -> Option<(Place, bool)> {
        let mut members = self.members.lock();
        let enter = |members: &mut Members| {
            has_room(members.all.len() + 1).then(|| self.place(members, socket)).flatten()
        };
        if let Some(place) = enter(&mut members) {
            return Some((place, false));
        }
        let stands = |standing| move |member: &&mut Member| member.standing == standing;
        if let Some(longest) = members.all.values_mut().find(stands(Standing::Silent)) {
            longest.standing = Standing::SentAway;
            longest.socket.hang_up();
        } else {
            // One that is on its way will do.
            members.all.values_mut().find(stands(Standing::SentAway))?;
        }
        let until = Instant::now() + GONE_WITHIN;
        loop {
            let left = until.checked_duration_since(Instant::now())?;
            members = self.left.wait_timeout(members, left).0;
            if let Some(place) = enter(&mut members) {
                return Some((place, true));
            }
        }
    }

    fn place(self: &Arc<Self>, members: &mut Members, socket: &Arc<Socket>) -> Option<Place> {
        let is_shut = members.has_ended || members.is_closed;
        if is_shut || members.all.len() >= self.most {
            return None;
        }
        let number = members.next;
        members.next += 1;
        members.all.insert(number, Member { socket: socket.clone(), standing: Standing::Silent });
        Some(Place { crowd: self.clone(), number })
    }

    pub(crate) fn len(&self) -> usize {
        self.members.lock().all.len()
    }

    /// Whether there was ever a member.
    pub(crate) fn was_entered(&self) -> bool {
        self.members.lock().next > 0
    }

    /// Lets none in until what is returned goes; the number of members, if there are any.
    pub(crate) fn close(&self) -> Result<Closed<'_>, usize> {
        let mut members = self.members.lock();
        if members.is_closed || !members.all.is_empty() {
            return Err(members.all.len());
        }
        members.is_closed = true;
        Ok(Closed(self))
    }

    /// Ends the connections of those who have not said what they want, and lets none in any more.
    pub(crate) fn hang_up_on_silent(&self) {
        let mut members = self.members.lock();
        members.has_ended = true;
        let silent = members.all.values().filter(|member| member.standing != Standing::Settled);
        silent.for_each(|member| member.socket.hang_up());
    }

    /// Ends all connections, and lets none in any more.
    pub(crate) fn hang_up(&self) {
        let mut members = self.members.lock();
        members.has_ended = true;
        members.all.values().for_each(|member| member.socket.hang_up());
    }

    /// Whether all were gone in time.
    pub(crate) fn is_gone_by(&self, until: Instant) -> bool {
        let mut members = self.members.lock();
        while !members.all.is_empty() {
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

impl Place {
    /// Whether its member stays from now on, whoever else comes: it has said what it wants. If not, it was sent away before,
    /// or all were, and what it said may not be whole.
    pub(crate) fn settle(&self) -> bool {
        let mut members = self.crowd.members.lock();
        let has_ended = members.has_ended;
        let member = members
            .all
            .get_mut(&self.number)
            .filter(|member| !has_ended && member.standing != Standing::SentAway);
        member.map(|member| member.standing = Standing::Settled).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.members.lock().all.remove(&self.number);
        self.crowd.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn socket() -> Arc<Socket> {
        let (one, _) = UnixStream::pair().unwrap();
        Arc::new(Socket::new(one.into(), Duration::from_secs(1)).unwrap())
    }

    #[test]
    fn who_is_silent_makes_room_and_who_is_settled_stays() {
        let crowd = Arc::new(Crowd::new(2));
        let settled = crowd.enter(&socket()).unwrap();
        let silent = crowd.enter(&socket()).unwrap();
        assert!(settled.settle());
        assert!(crowd.enter(&socket()).is_none());
        assert!(crowd.press_in(&socket(), |_| true).is_none(), "there are more than may be");
        assert!(!silent.settle(), "it was sent away");
        let third = thread::scope(|scope| {
            let pressed = scope.spawn(|| crowd.press_in(&socket(), |_| true));
            drop(silent);
            let (third, _) = pressed.join().unwrap().unwrap();
            third
        });
        assert!(third.settle() && settled.settle());
        assert!(crowd.press_in(&socket(), |_| true).is_none(), "all have said what they want");
        assert_eq!(crowd.len(), 2);
        crowd.hang_up();
        assert!(!third.settle(), "what it said may have been cut off");
        drop((settled, third));
        assert!(crowd.is_gone_by(Instant::now()));
    }

    #[test]
    fn who_is_silent_makes_room_where_memory_is_short() {
        let crowd = Arc::new(Crowd::new(9));
        let silent = crowd.enter(&socket()).unwrap();
        let second = thread::scope(|scope| {
            let pressed = scope.spawn(|| crowd.press_in(&socket(), |count| count <= 1));
            let is_sent_away = || {
                let members = crowd.members.lock();
                members.all.values().any(|member| member.standing == Standing::SentAway)
            };
            while !is_sent_away() && !pressed.is_finished() {
                thread::yield_now();
            }
            drop(silent);
            pressed.join().unwrap().unwrap()
        });
        assert!(second.1 && crowd.len() == 1);
        assert!(second.0.settle());
        assert!(crowd.press_in(&socket(), |_| false).is_none(), "there is no room for any");
    }
}
