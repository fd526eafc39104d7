//! The control socket, by which clients read and write the attributes of a served device.
//!
//! A request is a line, followed by bytes up to a zero byte, in UTF-8. A request without the zero
//! byte was cut off, and is not carried out. If a client disconnects before its request was read,
//! the request is not carried out either. The answer is a line `ok` followed by text, or a line
//! `error NUMBER MESSAGE` with Linux's errno.
//!
//! ```text
//!   show NAME              the attribute's text
//!   store NAME <lf> VALUE  nothing
//!   stat                   an object of JSON: the disk, its memory use, and the running job
//!   save <lf> PATH         the result: lines of a word and a number
//!   restore <lf> PATH      the same
//!   recompress <lf> WORDS  the same; the words are those of the attribute
//!   writeback <lf> WORDS   the same
//! ```
//!
//! Each request has its own thread, so other requests are answered while a job runs. The server
//! starts all threads at its own start, because the system can refuse threads later. A job
//! continues when its client disconnects, and the server then logs the job's result. A server that
//! is ending answers `stat`. A server that is ending saves the disk for clients until the server
//! itself has saved the disk.
//!
//! A client that waits for the end of a request also checks that the server runs, by `stat` on
//! another connection.

mod ask;
mod exchange;
mod request;

pub use crate::policy::{ANSWERS_WITHIN, CONTROL_CLIENTS as CLIENTS, CONTROL_RESERVE as RESERVE};
use crate::policy::{BESIDE_STACK, CONTROL_STACK, CONTROL_WITHIN};
pub use crate::steered::{Refusal, Steered};
pub use ask::{AskError, ask};
pub use request::Request;

use crate::accept::Acceptor;
use crate::address::{Address, Listening};
use crate::client_set::{ClientPermit, ClientSet};
use crate::log::Log;
use crate::socket::Socket;
use crate::spawn::spawn;
use exchange::answer;
use rustix_futex_sync::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The number of bytes of address space that the threads take, including the allocator's growth for
/// these threads.
pub const BYTES: usize = CLIENTS * (CONTROL_STACK + BESIDE_STACK);

/// The server of the control socket.
pub struct Control {
    acceptor: Acceptor,
    clients: Arc<ClientSet>,
    threads: Vec<JoinHandle<()>>,
    is_ending: Arc<AtomicBool>,
}

impl Control {
    /// Starts the server, which answers clients on separate threads.
    ///
    /// # Errors
    /// Fails if the system refuses a thread.
    pub fn start(listening: Listening, steered: Arc<dyn Steered>, log: Log) -> io::Result<Self> {
        let clients = Arc::new(ClientSet::new(CLIENTS));
        let is_ending = Arc::new(AtomicBool::new(false));
        let (sender, admitted) = mpsc::channel::<(Arc<Socket>, ClientPermit)>();
        let admitted = Arc::new(Mutex::new(admitted));
        let mut threads = Vec::with_capacity(CLIENTS);
        for _ in 0..CLIENTS {
            let (admitted, steered) = (admitted.clone(), steered.clone());
            let (ends, log) = (is_ending.clone(), log.clone());
            let next = move || admitted.lock().recv().ok();
            threads.push(spawn("control", CONTROL_STACK, move || {
                while let Some((socket, permit)) = next() {
                    // A client that sends no request receives no answer. A panic ends only the
                    // connection of this client.
                    let answers = || answer(&socket, &permit, (&*steered, &ends), &log);
                    let _ = catch_unwind(AssertUnwindSafe(answers));
                }
            })?);
        }
        let set = clients.clone();
        let acceptor = Acceptor::start(listening, CONTROL_WITHIN, log.clone(), move |socket| {
            let socket = Arc::new(socket);
            match set.enter_or_evict(&socket, |_| true) {
                // The server has a thread for each client that it admits, so a thread is free.
                Some((permit, _)) => drop(sender.send((socket, permit))),
                None => log.line("control: refused a client: too many requests are being answered"),
            }
        })?;
        Ok(Control { acceptor, clients, threads, is_ending })
    }

    /// From now on, allows only requests that read attributes or the server's state, save the disk,
    /// or cancel a job.
    pub fn only_save(&self) {
        self.is_ending.store(true, SeqCst);
    }

    /// Closes all connections. Clients with a complete request receive their answer first. Returns
    /// whether all connections were closed in time.
    pub fn stop(self, within: Duration) -> bool {
        self.acceptor.stop();
        self.clients.hang_up_on_new();
        let have_left = self.clients.is_empty_by(Instant::now() + within);
        self.clients.hang_up();
        if have_left {
            // The acceptor was stopped, so the threads that wait for clients end.
            self.threads.into_iter().for_each(|thread| drop(thread.join()));
        }
        have_left
    }
}

/// Listens at a path that only this user can connect to.
///
/// # Errors
/// Fails as [`Address::listen`] does.
pub fn listen(path: &Path) -> Result<Listening, crate::AddressError> {
    Address::Unix(path.to_owned()).listen()
}
