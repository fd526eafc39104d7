//! The listener, and all its connections.

use super::bounds::{HALF_OPEN_MAX, INPUT_BUFFER};
use super::connection::{STACK, Service, WORKER_BYTES, serve};
use super::disconnect::End;
use super::export::Exports;
use super::large_writes::LargeWrites;
use super::stream::Stream;
use crate::accept::Acceptor;
use crate::address::Listening;
use crate::client_set::{ClientPermit, ClientSet};
use crate::log::Log;
use crate::socket::Socket;
use crate::spawn::spawn_for_client;
use rustix_futex_sync::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use zram::room;

/// How much a server does at once.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that serve a connection's requests.
    pub workers: usize,
    /// Connections with an export; more are refused.
    pub connections: usize,
}

/// How often a waiting thread looks at the time.
const TICK: Duration = Duration::from_secs(1);

/// Most bytes that one of them has in use at a time of what is small: an answer that grows (it is
/// sent before it is 4 KiB and one more reply), its thread.
pub const HALF_OPEN_RESERVE: usize = 32 << 10;

const NO_ROOM: &str = "nbd: refused a client: memory or address space (ulimit -v) is short";

const TOO_MANY: &str = "nbd: refused a client: too many others have not chosen an export yet";

const FULL: &str =
    "nbd: refused a client: all --connections are in use, or the disk is being restored";

impl Options {
    /// Returns the bytes of address space that a connection takes.
    pub fn connection_bytes(&self) -> usize {
        INPUT_BUFFER + self.workers.max(1) * WORKER_BYTES
    }
}

impl Default for Options {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Options { workers: processors.min(4), connections: 64 }
    }
}

/// A server that runs until it is stopped.
pub struct Server {
    service: Arc<Service>,
    /// Until it is stopped.
    acceptor: Mutex<Option<Acceptor>>,
    established: Arc<ClientSet>,
    half_open: Arc<ClientSet>,
}

impl Stream for Socket {
    fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.receive(buf)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn hang_up(&self) {
        self.hang_up();
    }
}

impl Server {
    /// Serves all clients, on threads of its own.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(
        listening: Listening,
        exports: Exports,
        options: Options,
        log: Log,
    ) -> io::Result<Self> {
        let service = Arc::new(Service {
            exports,
            large: LargeWrites::default(),
            stop: AtomicBool::new(false),
            workers: options.workers.max(1),
        });
        let established = Arc::new(ClientSet::new(options.connections));
        let half_open = Arc::new(ClientSet::new(HALF_OPEN_MAX));
        let client = {
            let (service, log) = (service.clone(), log.clone());
            let (half_open, established) = (half_open.clone(), established.clone());
            move |socket: Socket| {
                if established.len() >= options.connections {
                    return log.line(FULL);
                }
                let socket = Arc::new(socket);
                // Half-open connections will take as much; the silent ones among them make room.
                let has_room = |asking: usize| {
                    room::is_left(asking.saturating_mul(options.connection_bytes()))
                };
                let Some((permit, has_evicted)) = half_open.enter_or_evict(&socket, has_room)
                else {
                    return log.line(if has_room(1) { TOO_MANY } else { NO_ROOM });
                };
                if has_evicted {
                    log.line(
                        "nbd: disconnected a client that had not chosen an export, to let another \
                         one in",
                    );
                }
                let (service, established, told) =
                    (service.clone(), established.clone(), log.clone());
                spawn_for_client("nbd", STACK, &log, move || {
                    serve_client(&service, &socket, permit, &established, &told);
                });
            }
        };
        let acceptor = Mutex::new(Some(Acceptor::start(listening, TICK, log, client)?));
        Ok(Server { service, acceptor, established, half_open })
    }

    /// Clients that have an export.
    pub fn connections(&self) -> usize {
        self.established.len()
    }

    /// Returns whether a client has or had an export.
    pub fn was_used(&self) -> bool {
        self.established.had_clients()
    }

    /// Does `work` while no client has an export, and lets none have one meanwhile.
    ///
    /// # Errors
    /// So many clients have one.
    pub fn alone<T>(&self, work: impl FnOnce() -> T) -> Result<T, usize> {
        let _closed = self.established.pause()?;
        Ok(work())
    }

    /// Ends all connections, and waits until they have, and returns whether they had in time.
    pub fn stop(&self, within: Duration) -> bool {
        self.service.stop.store(true, Relaxed);
        if let Some(acceptor) = self.acceptor.lock().take() {
            acceptor.stop();
        }
        let (until, sets) = (Instant::now() + within, [&self.half_open, &self.established]);
        sets.iter().for_each(|set| set.hang_up());
        sets.iter().all(|set| set.is_empty_by(until))
    }
}

/// A connection from its first byte to its last.
fn serve_client(
    service: &Service,
    socket: &Arc<Socket>,
    permit: ClientPermit,
    established: &Arc<ClientSet>,
    log: &Log,
) {
    let mut permit = permit;
    let end = serve(service, &**socket, |_| {
        if !permit.establish() {
            return false;
        }
        let better = established.enter(socket);
        let is_in = better.is_some();
        match better {
            Some(better) => permit = better,
            None => log.line(FULL),
        }
        is_in
    });
    socket.hang_up();
    match end {
        End::Left => {}
        End::Broken(_) if service.stop.load(Relaxed) => {}
        End::Broken(error) => log.line(format_args!("nbd: a connection was lost: {error}")),
        End::Fault(fault) => log.line(format_args!("nbd: disconnected a client: {fault}")),
    }
    drop(permit);
}
