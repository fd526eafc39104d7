//! Sets of connections of one kind. A set counts its connections, evicts one connection in favor of
//! another, and closes all connections at the end.

use crate::policy::EVICTED_WITHIN;
use crate::socket::Socket;
use rustix_futex_sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// A bounded set of connections of one kind.
pub(crate) struct ClientSet {
    most: usize,
    clients: Mutex<ClientMap>,
    left: Condvar,
}

#[derive(Default)]
struct ClientMap {
    next: u64,
    /// Whether the set has stopped admitting clients.
    has_ended: bool,
    is_paused: bool,
    /// The clients by their numbers. Numbers increase in the order of connection.
    all: BTreeMap<u64, Client>,
}

struct Client {
    socket: Arc<Socket>,
    stance: Stance,
}

/// The progress of a client, by which the set decides whether the client can be evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stance {
    /// The client has neither chosen an export nor sent a request, and the server is allowed to
    /// evict it.
    New,
    /// The client has chosen an export or sent its request, and is never evicted.
    Established,
    /// The client was evicted, so its further requests have no effect.
    Evicted,
}

/// A client's membership in a set. A drop of the permit removes the client from the set.
pub(crate) struct ClientPermit {
    set: Arc<ClientSet>,
    number: u64,
}

/// While this guard exists, the set admits no client.
pub(crate) struct Paused<'c>(&'c ClientSet);

impl ClientSet {
    pub(crate) fn new(most: usize) -> Self {
        ClientSet { most, clients: Mutex::default(), left: Condvar::new() }
    }

    /// Admits one more client if the set is not full.
    pub(crate) fn enter(self: &Arc<Self>, socket: &Arc<Socket>) -> Option<ClientPermit> {
        self.admit(&mut self.clients.lock(), socket)
    }

    /// Admits a new client, and returns whether the new client had to wait until an evicted client
    /// disconnected. A client is evicted if the set is full, or if `has_room` returns false for the
    /// number of clients. The evicted client is the [`Stance::New`] client that connected first.
    pub(crate) fn enter_or_evict(
        self: &Arc<Self>,
        socket: &Arc<Socket>,
        has_room: impl Fn(usize) -> bool,
    ) -> Option<(ClientPermit, bool)> {
        let mut clients = self.clients.lock();
        let enter = |clients: &mut ClientMap| {
            has_room(clients.all.len() + 1).then(|| self.admit(clients, socket)).flatten()
        };
        if let Some(permit) = enter(&mut clients) {
            return Some((permit, false));
        }
        let stands = |stance| move |client: &&mut Client| client.stance == stance;
        if let Some(longest) = clients.all.values_mut().find(stands(Stance::New)) {
            longest.stance = Stance::Evicted;
            longest.socket.hang_up();
        } else {
            // If no client can be evicted, the thread waits for a client that was evicted earlier
            // and is about to disconnect.
            clients.all.values_mut().find(stands(Stance::Evicted))?;
        }
        let until = Instant::now() + EVICTED_WITHIN;
        loop {
            let left = until.checked_duration_since(Instant::now())?;
            clients = self.left.wait_timeout(clients, left).0;
            if let Some(permit) = enter(&mut clients) {
                return Some((permit, true));
            }
        }
    }

    fn admit(
        self: &Arc<Self>,
        clients: &mut ClientMap,
        socket: &Arc<Socket>,
    ) -> Option<ClientPermit> {
        let is_shut = clients.has_ended || clients.is_paused;
        if is_shut || clients.all.len() >= self.most {
            return None;
        }
        let number = clients.next;
        clients.next += 1;
        clients.all.insert(number, Client { socket: socket.clone(), stance: Stance::New });
        Some(ClientPermit { set: self.clone(), number })
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.lock().all.len()
    }

    /// Returns whether the set has ever had a client.
    pub(crate) fn had_clients(&self) -> bool {
        self.clients.lock().next > 0
    }

    /// Admits no client until the returned guard is dropped. If the set contains clients, returns
    /// their number as an error.
    pub(crate) fn pause(&self) -> Result<Paused<'_>, usize> {
        let mut clients = self.clients.lock();
        if clients.is_paused || !clients.all.is_empty() {
            return Err(clients.all.len());
        }
        clients.is_paused = true;
        Ok(Paused(self))
    }

    /// Closes the connections of clients that are not established, and admits no more clients.
    pub(crate) fn hang_up_on_new(&self) {
        let mut clients = self.clients.lock();
        clients.has_ended = true;
        let others = clients.all.values().filter(|client| client.stance != Stance::Established);
        others.for_each(|client| client.socket.hang_up());
    }

    /// Closes all connections, and admits no more clients.
    pub(crate) fn hang_up(&self) {
        let mut clients = self.clients.lock();
        clients.has_ended = true;
        clients.all.values().for_each(|client| client.socket.hang_up());
    }

    /// Waits until all clients have disconnected or the time `until` has passed. Returns whether
    /// all clients have disconnected.
    pub(crate) fn is_empty_by(&self, until: Instant) -> bool {
        let mut clients = self.clients.lock();
        while !clients.all.is_empty() {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            clients = self.left.wait_timeout(clients, left).0;
        }
        true
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.clients.lock().is_paused = false;
    }
}

impl ClientPermit {
    /// Marks the client as established, so that the client is never evicted. Returns false if the
    /// client was already evicted, or if the set was closed. The request of an evicted client may
    /// be incomplete, so the caller must not carry it out.
    pub(crate) fn establish(&self) -> bool {
        let mut clients = self.set.clients.lock();
        let has_ended = clients.has_ended;
        let client = clients
            .all
            .get_mut(&self.number)
            .filter(|client| !has_ended && client.stance != Stance::Evicted);
        client.map(|client| client.stance = Stance::Established).is_some()
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        self.set.clients.lock().all.remove(&self.number);
        self.set.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    fn socket() -> Arc<Socket> {
        let (one, _) = UnixStream::pair().unwrap();
        Arc::new(Socket::new(one.into(), Duration::from_secs(1)).unwrap())
    }

    #[test]
    fn a_new_client_makes_room_and_an_established_one_stays() {
        let set = Arc::new(ClientSet::new(2));
        let established = set.enter(&socket()).unwrap();
        let new_client = set.enter(&socket()).unwrap();
        assert!(established.establish());
        assert!(set.enter(&socket()).is_none());
        assert!(set.enter_or_evict(&socket(), |_| true).is_none(), "there are more than may be");
        assert!(!new_client.establish(), "it was evicted");
        let third = thread::scope(|scope| {
            let entered = scope.spawn(|| set.enter_or_evict(&socket(), |_| true));
            drop(new_client);
            let (third, _) = entered.join().unwrap().unwrap();
            third
        });
        assert!(third.establish() && established.establish());
        assert!(set.enter_or_evict(&socket(), |_| true).is_none(), "all have said what they want");
        assert_eq!(set.len(), 2);
        set.hang_up();
        assert!(!third.establish(), "what it said may have been cut off");
        drop((established, third));
        assert!(set.is_empty_by(Instant::now()));
    }

    #[test]
    fn a_new_client_makes_room_where_memory_is_short() {
        let set = Arc::new(ClientSet::new(9));
        let new_client = set.enter(&socket()).unwrap();
        let second = thread::scope(|scope| {
            let entered = scope.spawn(|| set.enter_or_evict(&socket(), |count| count <= 1));
            let is_evicted = || {
                let clients = set.clients.lock();
                clients.all.values().any(|client| client.stance == Stance::Evicted)
            };
            while !is_evicted() && !entered.is_finished() {
                thread::yield_now();
            }
            drop(new_client);
            entered.join().unwrap().unwrap()
        });
        assert!(second.1 && set.len() == 1);
        assert!(second.0.establish());
        assert!(set.enter_or_evict(&socket(), |_| false).is_none(), "there is no room for any");
    }
}
