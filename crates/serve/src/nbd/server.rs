//! The NBD server: the listener and all connections.

use super::bounds::{EXTRA_WORKERS, HALF_OPEN_MAX, INPUT_BUFFER};
use super::connection::{Service, WORKER_BYTES, serve};
use super::disconnect::End;
use super::export::Exports;
use super::extra_workers::ExtraWorkers;
use super::large_writes::LargeWrites;
use super::stream::Stream;
use crate::accept::Acceptor;
use crate::address::Listening;
use crate::client_set::{ClientPermit, ClientSet};
use crate::descriptors;
use crate::log::Log;
pub use crate::policy::HALF_OPEN_RESERVE;
use crate::policy::{TICK, WORKER_STACK};
use crate::socket::Socket;
use crate::spawn::spawn_for_client;
use rustix_futex_sync::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use zram::room;

/// Limits on the work that a server does at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The maximum number of threads that serve the requests of one connection. In addition to the
    /// first worker of each connection, all connections share [`EXTRA_WORKERS`].
    pub workers: usize,
    /// The maximum number of connections with an export. The server refuses further connections.
    pub connections: usize,
}

/// The number of bytes of address space that a connection with one worker takes.
const FIRST_BYTES: usize = INPUT_BUFFER + WORKER_BYTES;

const NO_ROOM: &str = "nbd: refused a client: memory, address space (ulimit -v) or descriptors \
    (ulimit -n) are short";

const TOO_MANY: &str = "nbd: refused a client: too many others have not chosen an export yet";

const FULL: &str =
    "nbd: refused a client: all --connections are in use, or the disk is being restored";

impl Options {
    /// Returns the number of bytes of address space that a connection with all of its workers
    /// takes.
    pub fn connection_bytes(&self) -> usize {
        INPUT_BUFFER + self.workers.max(1) * WORKER_BYTES
    }

    /// Returns the maximum total number of workers of all connections.
    pub fn workers_max(&self) -> usize {
        let extra = self.connections.saturating_mul(self.workers.max(1) - 1);
        self.connections.saturating_add(extra.min(EXTRA_WORKERS))
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
    /// The acceptor, or `None` after the server was stopped.
    acceptor: Mutex<Option<Acceptor>>,
    /// The clients that have chosen an export.
    established: Arc<ClientSet>,
    /// The clients that have not chosen an export yet.
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
    /// Starts the server, which serves clients on separate threads.
    ///
    /// # Errors
    /// Fails if the system refuses a thread.
    pub fn start(
        listening: Listening,
        exports: Exports,
        options: Options,
        log: Log,
    ) -> io::Result<Self> {
        let service = Arc::new(Service {
            large: LargeWrites::new(exports.write_max()),
            exports,
            extra_workers: ExtraWorkers::default(),
            stop: AtomicBool::new(false),
            workers: options.workers.max(1),
        });
        let descriptors = descriptors::left_for_clients();
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
                // Each half-open connection can choose an export, so memory for the first worker of
                // each such connection must be free. Otherwise, the oldest half-open connection is
                // closed.
                let has_room = |clients: usize| {
                    clients + established.len() <= descriptors
                        && room::is_left(clients.saturating_mul(FIRST_BYTES))
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
                let (service, established, client_log) =
                    (service.clone(), established.clone(), log.clone());
                spawn_for_client("nbd", WORKER_STACK, &log, move || {
                    serve_client(&service, &socket, permit, &established, &client_log);
                });
            }
        };
        let acceptor = Mutex::new(Some(Acceptor::start(listening, TICK, log, client)?));
        Ok(Server { service, acceptor, established, half_open })
    }

    /// Returns the number of clients that have an export.
    pub fn connections(&self) -> usize {
        self.established.len()
    }

    /// Returns whether any client has ever had an export.
    pub fn was_used(&self) -> bool {
        self.established.had_clients()
    }

    /// Runs `work` while no client has an export. Clients that choose an export during this time
    /// are refused.
    ///
    /// # Errors
    /// Returns the number of clients that have an export, if it is not 0.
    pub fn alone<T>(&self, work: impl FnOnce() -> T) -> Result<T, usize> {
        let _closed = self.established.pause()?;
        Ok(work())
    }

    /// Closes the listener and all connections. Returns whether all connections ended in the time
    /// `within`.
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

/// Serves a connection from the handshake to the end.
fn serve_client(
    service: &Service,
    socket: &Arc<Socket>,
    permit: ClientPermit,
    established: &Arc<ClientSet>,
    log: &Log,
) {
    let mut permit = permit;
    let end = serve(service, &**socket, || {
        if !permit.establish() {
            return false;
        }
        let admitted = established.enter(socket);
        let is_admitted = admitted.is_some();
        match admitted {
            Some(admitted) => permit = admitted,
            None => log.line(FULL),
        }
        is_admitted
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
