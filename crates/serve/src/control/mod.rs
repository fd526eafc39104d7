//! The control socket, by which clients read and write the attributes of a served device.
//!
//! A request is a line, followed by bytes up to a zero byte, in UTF-8. A request without the zero
//! byte was cut off, and is not carried out. A request whose client disconnected before the request
//! was read is not carried out either. The answer is a line `ok` followed by text, or a line `error
//! NUMBER MESSAGE`, with Linux's errno.
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
//! Each request has its own thread, so other requests are answered while a job runs. The threads
//! are started with the server, because the system may refuse threads when a client connects. A job
//! continues when its client disconnects; the server then logs its result. A server that is ending
//! answers `stat` and saves the disk for clients, until it has saved the disk itself.
//!
//! A client that waits for the end of a request also requests `stat` on another connection, to
//! check that the server runs.

mod ask;
mod request;

pub use crate::policy::{ANSWERS_WITHIN, CONTROL_CLIENTS as CLIENTS, CONTROL_RESERVE as RESERVE};
use crate::policy::{
    BESIDE_STACK, CONTROL_RECEIVED, CONTROL_REQUEST_MAX, CONTROL_SHORT, CONTROL_STACK,
    CONTROL_WITHIN,
};
pub use crate::steered::{Refusal, Steered};
pub use ask::{AskError, ask};
pub use request::Request;

use crate::accept::Acceptor;
use crate::address::{Address, Listening};
use crate::client_set::{ClientPermit, ClientSet};
use crate::log::Log;
use crate::socket::Socket;
use crate::spawn::spawn;
use crate::steered;
use request::END;
use rustix::io::Errno;
use rustix_futex_sync::Mutex;
use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zram::room;

/// The bytes of address space that the threads take, including the allocator's growth for them.
pub const BYTES: usize = CLIENTS * (CONTROL_STACK + BESIDE_STACK);

const SHORT_OF_MEMORY: &str = "out of memory; ask for less at a time, or free some";

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
                    // A client that sends no request expects no answer. A panic ends only the
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
                // Each client finds a free thread, because each client has a thread.
                Some((permit, _)) => drop(sender.send((socket, permit))),
                None => log.line("control: refused a client: too many requests are being answered"),
            }
        })?;
        Ok(Control { acceptor, clients, threads, is_ending })
    }

    /// Refuses all requests from now on, except those that read attributes or the server's state,
    /// save the disk, or cancel a job.
    pub fn only_save(&self) {
        self.is_ending.store(true, SeqCst);
    }

    /// Closes all connections. Connections with a complete request are answered first. Returns
    /// whether all connections were closed in time.
    pub fn stop(self, within: Duration) -> bool {
        self.acceptor.stop();
        self.clients.hang_up_on_new();
        let have_left = self.clients.is_empty_by(Instant::now() + within);
        self.clients.hang_up();
        if have_left {
            // Stopping the acceptor has ended the threads that wait for clients.
            self.threads.into_iter().for_each(|thread| drop(thread.join()));
        }
        have_left
    }
}

fn answer(
    socket: &Socket,
    permit: &ClientPermit,
    (steered, is_ending): (&dyn Steered, &AtomicBool),
    log: &Log,
) -> io::Result<()> {
    let mut answer = Answer { out: BufWriter::new(socket), has_begun: false, broken: Ok(()) };
    if !socket.peer().is_some_and(request::is_trusted) {
        let message = "permission denied: only root and the user who runs the server can use it";
        return answer.finish(&Err(Refusal::new(Errno::PERM, message)));
    }
    let text = receive(socket)?;
    if !permit.establish() {
        // The connection has failed, so no client can receive an answer.
        return Ok(());
    }
    let request = match text.and_then(|text| admit(&text, is_ending.load(SeqCst))) {
        Ok(request) => request,
        Err(refusal) => return answer.finish(&Err(refusal)),
    };
    // If this process was stopped, the client may have given up and reported a failure.
    if socket.has_left() {
        log.line("control: a client left before its request was read; it was not carried out");
        return Ok(());
    }
    let done = carry_out(steered, &request, &mut answer);
    let told = answer.finish(&done);
    if let (Err(_), Request::Store(what, _)) = (&told, &request) {
        log_orphaned(log, what, &done);
    }
    if let (Err(_), Request::Job(kind, _)) = (&told, &request) {
        log_orphaned(log, &kind.to_string(), &done);
    }
    told
}

/// Receives a request, and returns its text when it is complete.
fn receive(socket: &Socket) -> io::Result<Result<String, Refusal>> {
    let (mut text, mut some) = (Vec::new(), [0; CONTROL_RECEIVED]);
    let refused = |errno, message| Ok(Err(Refusal::new(errno, message)));
    loop {
        let len = match socket.receive(&mut some) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            received => received?,
        };
        let (received, end) = (&some[..len], some[..len].iter().position(|byte| *byte == END));
        if received.is_empty() {
            return refused(
                Errno::INVAL,
                "the request is incomplete and was not carried out; it must end with a zero byte",
            );
        }
        if text.len() + len > CONTROL_REQUEST_MAX {
            return refused(Errno::INVAL, "a request may have at most 65536 bytes");
        }
        if text.try_reserve(len).is_err() {
            return refused(Errno::NOMEM, SHORT_OF_MEMORY);
        }
        text.extend_from_slice(&received[..end.unwrap_or(len)]);
        match end {
            None => {}
            Some(end) if end + 1 == len => break,
            Some(_) => {
                return refused(
                    Errno::INVAL,
                    "there are bytes after the zero byte that ends the request",
                );
            }
        }
    }
    let text = String::from_utf8(text).map_err(|_| {
        Refusal::new(Errno::INVAL, "the request is not valid UTF-8; give another path or value")
    });
    Ok(text)
}

/// Parses the request, and returns it if the server may carry out the request at this time.
fn admit(text: &str, is_ending: bool) -> Result<Request, Refusal> {
    if text.len() > CONTROL_SHORT && !room::is_left(8 * text.len()) {
        return Err(Refusal::new(Errno::NOMEM, SHORT_OF_MEMORY));
    }
    let request = Request::parse(text).ok_or_else(|| {
        Refusal::new(Errno::INVAL, "unknown request; expected show, store, stat, or a job")
    })?;
    if is_ending && !request.is_for_the_end() {
        let message =
            "the server is shutting down and refuses changes; 'uzram save' still saves the disk";
        return Err(Refusal::new(Errno::SHUTDOWN, message));
    }
    Ok(request)
}

/// Logs the result of a job whose client did not wait for the result.
fn log_orphaned(log: &Log, what: &str, done: &Result<(), Refusal>) {
    match done {
        Ok(()) => {
            log.line(format_args!("control: '{}', whose client left, is done", what.escape_debug()))
        }
        Err(Refusal { message, .. }) => {
            log.line(format_args!(
                "control: '{}', whose client left, failed: {message}",
                what.escape_debug()
            ));
        }
    }
}

/// Carries out a request. Errors in writing the answer are reported only at the end.
fn carry_out(
    steered: &dyn Steered,
    request: &Request,
    answer: &mut Answer<'_>,
) -> Result<(), Refusal> {
    match request {
        Request::Show(name) => steered.zram().show_to(name, answer)?,
        Request::Store(name, value) => steered::store(steered, name, value)?,
        Request::Stat => drop(answer.write_str(&steered.stat())),
        Request::Job(kind, text) => {
            for (what, count) in steered::job(steered, *kind, text)? {
                let _ = writeln!(answer, "{what} {count}");
            }
        }
    }
    Ok(())
}

/// An answer that is being written. The answer begins with `ok`.
struct Answer<'s> {
    out: BufWriter<&'s Socket>,
    has_begun: bool,
    broken: io::Result<()>,
}

impl Answer<'_> {
    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            Ok(())
        } else {
            self.out.write_all(b"ok\n")
        }
    }

    fn finish(mut self, done: &Result<(), Refusal>) -> io::Result<()> {
        std::mem::replace(&mut self.broken, Ok(()))?;
        match done {
            Err(Refusal { errno, message }) if !self.has_begun => {
                writeln!(self.out, "error {errno} {}", message.replace('\n', " "))?;
            }
            _ => self.begin()?,
        }
        self.out.flush()
    }
}

impl fmt::Write for Answer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.broken = self.begin().and_then(|()| self.out.write_all(text.as_bytes()));
        self.broken.as_ref().map(|_| ()).map_err(|_| fmt::Error)
    }
}

/// Listens at a path that only this user can connect to.
///
/// # Errors
/// Fails as [`Address::listen`] does.
pub fn listen(path: &Path) -> Result<Listening, crate::AddressError> {
    Address::Unix(path.to_owned()).listen()
}
