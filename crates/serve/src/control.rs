//! The control socket: attributes of a device that is served are read and written here.
//!
//! A request is a line, and what follows it up to the end of what the client sends; the answer a line `ok` and text
//! behind it, or a line `error NUMBER MESSAGE`, with Linux's errno.
//!
//! ```text
//!   show NAME              the attribute's text
//!   store NAME <lf> VALUE  nothing
//!   stat                   an object of JSON: what is served, and how full it is
//! ```

use crate::accept::{Acceptor, Crowd};
use crate::address::{Address, Listening};
use crate::log::Log;
use crate::socket::Socket;
use rustix::io::Errno;
use std::fmt;
use std::io::{self, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use zram::Zram;

/// Most bytes of a request.
const REQUEST_MAX: u64 = 64 << 10;

/// A client has to go on within this time.
const WITHIN: Duration = Duration::from_secs(10);

/// Clients at a time; more are refused.
const CLIENTS: usize = 16;

/// What is steered.
pub struct Steered {
    /// The device with its attributes.
    pub zram: Arc<Zram>,
    /// Tells what is served, as JSON.
    pub stat: Box<dyn Fn() -> String + Send + Sync>,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The text of an attribute.
    Show(String),
    /// An attribute is to have a value.
    Store(String, String),
    /// What is served.
    Stat,
}

/// A refusal, as it is sent to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Linux's errno.
    pub errno: i32,
    /// In words, on one line.
    pub message: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No server listens there.
    #[error(
        "no server answers at '{path}': {source}; start one with 'uzram serve', or give its --control"
    )]
    Unreached {
        /// Where it was to be.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The connection broke, or the answer is none.
    #[error("the server's answer did not come whole: {0}; see what it says itself")]
    Broken(io::Error),
    /// The server refuses.
    #[error("{}", .0.message)]
    Refused(Refusal),
}

/// The socket's server.
pub struct Control {
    acceptor: Acceptor,
    clients: Arc<Crowd>,
}

impl Control {
    /// Answers all who ask, on threads of its own.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(listening: Listening, steered: Steered, log: Log) -> io::Result<Self> {
        let (steered, clients) = (Arc::new(steered), Arc::new(Crowd::new(CLIENTS)));
        let crowd = clients.clone();
        let told = log.clone();
        let acceptor = Acceptor::start(listening, WITHIN, log, move |socket| {
            let (socket, steered) = (Arc::new(socket), steered.clone());
            let Some(place) = crowd.enter(&socket) else { return };
            let named = thread::Builder::new().name("control".to_owned());
            let started = named.spawn(move || {
                // Who does not wait for an answer wants none.
                let _ = answer(&socket, &steered);
                drop(place);
            });
            if let Err(error) = started {
                told.line(format_args!("control: a client was refused: no thread for it: {error}"));
            }
        })?;
        Ok(Control { acceptor, clients })
    }

    /// Ends all connections; whether they ended in time.
    pub fn stop(self, within: Duration) -> bool {
        self.acceptor.stop();
        self.clients.disperse(within)
    }
}

fn answer(socket: &Socket, steered: &Steered) -> io::Result<()> {
    let mut text = String::new();
    (&mut &*socket).take(REQUEST_MAX).read_to_string(&mut text)?;
    let mut answer = Answer { out: BufWriter::new(socket), has_begun: false, broken: Ok(()) };
    let done = match Request::parse(&text) {
        Some(Request::Show(name)) => {
            steered.zram.show_to(&name, &mut answer).map_err(Refusal::from)
        }
        Some(Request::Store(name, value)) => {
            steered.zram.store(&name, &value).map_err(Refusal::from)
        }
        Some(Request::Stat) => {
            // Whether it was written is known in the end.
            let _ = fmt::Write::write_str(&mut answer, &(steered.stat)());
            Ok(())
        }
        None => Err(Refusal {
            errno: Errno::INVAL.raw_os_error(),
            message: "no such request; expected show, store or stat".to_owned(),
        }),
    };
    answer.finish(done)
}

/// An answer as it is written: `ok` stands before what comes first.
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

    fn finish(mut self, done: Result<(), Refusal>) -> io::Result<()> {
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

impl From<zram::Error> for Refusal {
    fn from(error: zram::Error) -> Self {
        Refusal { errno: error.errno(), message: error.to_string() }
    }
}

impl Request {
    fn parse(text: &str) -> Option<Self> {
        let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
        match line.split_once(' ') {
            Some(("show", name)) => Some(Request::Show(name.to_owned())),
            Some(("store", name)) => Some(Request::Store(name.to_owned(), rest.to_owned())),
            None if line == "stat" => Some(Request::Stat),
            _ => None,
        }
    }

    /// Asks the server at `path`, and writes its answer to `out`.
    ///
    /// # Errors
    /// [`AskError`]
    pub fn ask(&self, path: &Path, out: &mut impl Write) -> Result<(), AskError> {
        let unreached = |source| AskError::Unreached { path: path.display().to_string(), source };
        let mut stream = UnixStream::connect(path).map_err(unreached)?;
        let request = match self {
            Request::Show(name) => format!("show {name}\n"),
            Request::Store(name, value) => format!("store {name}\n{value}"),
            Request::Stat => "stat\n".to_owned(),
        };
        stream.write_all(request.as_bytes()).map_err(AskError::Broken)?;
        stream.shutdown(Shutdown::Write).map_err(AskError::Broken)?;
        let mut answer = io::BufReader::new(stream);
        let mut line = String::new();
        io::BufRead::read_line(&mut answer, &mut line).map_err(AskError::Broken)?;
        match line.trim_end().split_once(' ') {
            None if line == "ok\n" => {
                io::copy(&mut answer, out).map(|_| ()).map_err(AskError::Broken)
            }
            Some(("error", refusal)) => Err(AskError::Refused(Refusal::parse(refusal))),
            _ => Err(AskError::Broken(io::ErrorKind::InvalidData.into())),
        }
    }
}

impl Refusal {
    fn parse(text: &str) -> Self {
        let (errno, message) = text.split_once(' ').unwrap_or(("", text));
        let errno = errno.parse().unwrap_or(Errno::IO.raw_os_error());
        Refusal { errno, message: message.to_owned() }
    }
}

/// Listens where only this user may ask.
///
/// # Errors
/// As [`Address::listen`].
pub fn listen(path: &Path) -> Result<Listening, crate::AddressError> {
    Address::Unix(path.to_owned()).listen()
}
