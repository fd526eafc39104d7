//! A server that answers `GET /metrics` with text that a caller makes.
//!
//! HTTP/1.1, a request a connection. `httparse` reads the request's head; what is allocated for it
//! is bounded, and a client that does not go on is disconnected when others come, as on the control
//! socket. A library that serves HTTP by itself has neither bound, and the disk would be lost with
//! the process whose memory a client used up.

use crate::accept::Acceptor;
use crate::address::{Address, Listening};
use crate::client_set::{ClientPermit, ClientSet};
use crate::log::Log;
use crate::socket::Socket;
use crate::spawn::spawn_for_client;
use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a request's head, and most header lines in it.
const HEAD_MAX: usize = 4 << 10;
const HEADERS_MAX: usize = 32;

/// A client has to send or take more bytes within this time.
const WITHIN: Duration = Duration::from_secs(5);

/// What a client sends beyond its request is received for so long at most, and so many bytes: while
/// some is left, to close would take the answer back.
const REST_WITHIN: Duration = Duration::from_secs(1);
const REST_MAX: usize = 64 << 10;

/// Most clients at a time. If another comes, the first whose request is incomplete is disconnected;
/// if there is none, the new client is refused.
pub const CLIENTS: usize = 4;

/// Bytes of a client thread's stack.
const STACK: usize = 256 << 10;

/// Bytes of address space that all clients take, including the stacks' guard pages.
pub const BYTES: usize = CLIENTS * (STACK + (64 << 10));

/// Most bytes of small allocations that a client has in use at a time: the text, what it is made
/// of, and a buffer.
pub const RESERVE: usize = 96 << 10;

/// The text format of Prometheus.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The server of metrics.
pub struct Metrics {
    acceptor: Acceptor,
    clients: Arc<ClientSet>,
    address: Address,
}

/// An answer: its status, its kind, and its text.
struct Answer {
    status: &'static str,
    kind: &'static str,
    text: String,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    page: Page,
    /// Whether the text itself is left out.
    is_head: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Metrics,
    /// A page that there is not.
    Other,
    /// By another method.
    Method,
    /// It is no HTTP.
    Malformed,
}

impl Metrics {
    /// Starts the server. `text` makes what is answered, on a thread of the client's.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(
        listening: Listening,
        text: impl Fn() -> String + Send + Sync + 'static,
        log: Log,
    ) -> io::Result<Self> {
        let address = listening.address().clone();
        let (clients, text) = (Arc::new(ClientSet::new(CLIENTS)), Arc::new(text));
        let (set, told) = (clients.clone(), log.clone());
        let acceptor = Acceptor::start(listening, WITHIN, log, move |socket| {
            let (socket, text) = (Arc::new(socket), text.clone());
            let Some((permit, _)) = set.enter_or_evict(&socket, |_| true) else { return };
            spawn_for_client("metrics", STACK, &told, move || {
                // A client that sends no request expects no answer.
                let _ = serve(&socket, &permit, &*text);
            });
        })?;
        Ok(Metrics { acceptor, clients, address })
    }

    /// Returns the address at which clients find it.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Closes all connections.
    pub fn stop(self) {
        self.acceptor.stop();
        self.clients.hang_up();
    }
}

fn serve(socket: &Socket, permit: &ClientPermit, text: &dyn Fn() -> String) -> io::Result<()> {
    let asked = receive(socket)?;
    if !permit.establish() {
        return Ok(());
    }
    let plain = |status: &'static str, text: &str| Answer {
        status,
        kind: "text/plain; charset=utf-8",
        text: format!("{text}\n"),
    };
    let answer = match asked.page {
        Page::Metrics => Answer { status: "200 OK", kind: TEXT, text: text() },
        Page::Other => plain("404 Not Found", "the metrics are at /metrics"),
        Page::Method => plain("405 Method Not Allowed", "only GET and HEAD are answered"),
        Page::Malformed => plain("400 Bad Request", "that is no request of HTTP, or too long"),
    };
    let mut out = BufWriter::new(socket);
    let Answer { status, kind, text } = answer;
    write!(out, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", text.len())?;
    if asked.page == Page::Method {
        out.write_all(b"Allow: GET, HEAD\r\n")?;
    }
    out.write_all(b"Connection: close\r\n\r\n")?;
    if !asked.is_head {
        out.write_all(text.as_bytes())?;
    }
    out.flush()?;
    drop(out);
    socket.end(REST_WITHIN, REST_MAX)
}

/// Receives the head of a request, and says what it asks for.
fn receive(socket: &Socket) -> io::Result<Asked> {
    let (mut head, mut len) = ([0; HEAD_MAX], 0);
    while len < head.len() {
        let received = match socket.receive(&mut head[len..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            received => received?,
        };
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        len += received;
        if let Some(asked) = parse(&head[..len]) {
            return Ok(asked);
        }
    }
    Ok(Asked { page: Page::Malformed, is_head: false })
}

/// Says what a request asks for; `None`: its head is incomplete.
fn parse(head: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Err(_) => return Some(Asked { page: Page::Malformed, is_head: false }),
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
    }
    let target = request.path.unwrap_or("");
    // Proxies are sent the whole address.
    let path = match target.strip_prefix("http://").map(|rest| rest.split_once('/')) {
        Some(Some((_, path))) => path,
        Some(None) => "",
        None => target.strip_prefix('/').unwrap_or(target),
    };
    let page = match (request.method, path.split('?').next()) {
        (Some("GET" | "HEAD"), Some("metrics")) => Page::Metrics,
        (Some("GET" | "HEAD"), _) => Page::Other,
        _ => Page::Method,
    };
    Some(Asked { page, is_head: request.method == Some("HEAD") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let page = |text: &str| parse(text.as_bytes()).map(|asked| (asked.page, asked.is_head));
        for (text, asked) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Some((Page::Metrics, false))),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Some((Page::Metrics, false))),
            ("GET http://a:1/metrics?x HTTP/1.1\r\n\r\n", Some((Page::Metrics, false))),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Some((Page::Metrics, true))),
            ("HEAD / HTTP/1.1\r\n\r\n", Some((Page::Other, true))),
            ("GET / HTTP/1.1\r\n\r\n", Some((Page::Other, false))),
            ("GET http://a HTTP/1.1\r\n\r\n", Some((Page::Other, false))),
            ("POST /metrics HTTP/1.1\r\n\r\n", Some((Page::Method, false))),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n", None),
            ("GET", None),
            ("\0\0", Some((Page::Malformed, false))),
        ] {
            assert_eq!(page(text), asked, "{text:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(page(&many), Some((Page::Malformed, false)));
    }
}
