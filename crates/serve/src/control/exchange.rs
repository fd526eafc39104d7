//! The exchange with one client: receives a request, carries it out, and writes the answer.

use super::request::{self, END, Request};
use crate::client_set::ClientPermit;
use crate::log::Log;
use crate::policy::{CONTROL_RECEIVED, CONTROL_REQUEST_MAX, CONTROL_SHORT};
use crate::socket::Socket;
use crate::steered::{self, Refusal, Steered};
use rustix::io::Errno;
use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use zram::room;

const SHORT_OF_MEMORY: &str = "out of memory; ask for less at a time, or free some";

/// Receives a client's request, carries it out, and answers it.
pub(super) fn answer(
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
    // If this process was stopped, the client may have given up on the request and reported a
    // failure.
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

/// Receives a request, and returns the text of the complete request.
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

/// Parses a request, and returns the request if the server is allowed to carry it out at this time.
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

/// Logs the result of a job whose client has disconnected before the result.
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

/// Carries out a request. An error in writing the answer is reported after the request was carried
/// out.
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
