//! Helpers of the tests: a server on a separate socket, and a client that sends exactly the given
//! bytes.
#![allow(dead_code, reason = "each test file uses a part")]

use serve::nbd::{Export, Exports, Mode, Options, Server};
use serve::{Address, Disk, Log};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
pub use testkit::nbd::*;
pub use testkit::wait::{patience, until};
use zram::{Config, Device};

pub const MIB: u64 = 1 << 20;

/// A server and its log.
pub struct Served {
    pub server: Server,
    pub path: PathBuf,
    pub log: Arc<Mutex<Vec<String>>>,
    _dir: TempDir,
}

pub fn device(config: Config) -> Arc<Device> {
    Arc::new(Device::new(config).unwrap())
}

pub fn export(name: &str, disk: Arc<dyn Disk>, mode: Mode) -> Export {
    Export { name: name.to_owned(), description: format!("disk {name}"), disk, mode }
}

/// Returns two exports of one disk of 64 MiB: the writable `disk`, and the read-only `fixed`.
pub fn exports() -> Exports {
    let disk: Arc<dyn Disk> = Arc::new(device(Config::new(64 * MIB).unwrap()));
    Exports::new([
        export("disk", disk.clone(), Mode::ReadWrite),
        export("fixed", disk, Mode::ReadOnly),
    ])
}

/// Stops the server, so that no thread is left at the end of a test.
impl Drop for Served {
    fn drop(&mut self) {
        self.server.stop(patience());
    }
}

impl Served {
    pub fn new(exports: Exports) -> Self {
        Served::with(exports, Options { workers: 3, connections: 64 })
    }

    pub fn with(exports: Exports, options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nbd.sock");
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let log_to = Log::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        let listening = Address::Unix(path.clone()).listen().unwrap();
        let server = Server::start(listening, exports, options, log_to).unwrap();
        Served { server, path, log, _dir: dir }
    }

    /// Connects a client that has sent nothing.
    pub fn connect(&self) -> Client {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.set_write_timeout(Some(patience())).unwrap();
        Client { stream, structured: false, cookie: 0, replies: Replies::default() }
    }

    /// Connects a client that has received the greeting and exchanged flags.
    pub fn greeted(&self) -> Client {
        let mut client = self.connect();
        client.greet(3);
        client
    }

    /// Connects a client that has chosen `disk`, structured replies and block status.
    pub fn chosen(&self) -> Client {
        let mut client = self.greeted();
        client.choose("disk", true);
        client
    }

    /// Waits for a line of the log that contains `part`.
    pub fn logged(&self, part: &str) {
        until(&format!("the log has {part:?}"), || {
            self.lines().iter().any(|line| line.contains(part))
        });
    }

    /// Returns all lines of the log.
    pub fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until exactly `connections` clients have an export.
    pub fn settled(&self, connections: usize) {
        until("the connections are so many", || self.server.connections() == connections);
    }
}

/// The maximum time until a server ends, regardless of its clients. A wait for a request has a
/// longer limit.
pub const ENDS_WITHIN: Duration = Duration::from_secs(29);

pub struct Client {
    pub stream: UnixStream,
    pub structured: bool,
    cookie: u64,
    replies: Replies,
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        bytes(&mut self.stream, len)
    }

    /// Returns whether the server ends the connection without sending another byte.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
            Ok(_) => false,
        }
    }

    pub fn greet(&mut self, flags: u32) {
        greeting(&mut self.stream);
        self.send(&flags.to_be_bytes());
    }

    pub fn send_option(&mut self, kind: u32, data: &[u8]) {
        self.send(&option(kind, data));
    }

    /// Receives one reply to an option.
    pub fn option_reply(&mut self, option: u32) -> (u32, Vec<u8>) {
        option_reply(&mut self.stream, option)
    }

    /// Sends an option, and returns all replies to it.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data);
        let mut replies = Vec::new();
        loop {
            let reply = self.option_reply(option);
            let is_last = reply.0 == ACK || reply.0 >= 1 << 31;
            replies.push(reply);
            if is_last {
                return replies;
            }
        }
    }

    /// Sends an option, and returns the kind of its only reply.
    pub fn option_kind(&mut self, option: u32, data: &[u8]) -> u32 {
        let replies = self.option(option, data);
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies[0].0
    }

    pub fn choose(&mut self, name: &str, structured: bool) {
        if structured {
            assert_eq!(self.option_kind(STRUCTURED_REPLY, &[]), ACK);
            let replies = self.option(SET_META_CONTEXT, &contexts(name, &[BASE_ALLOCATION]));
            assert_eq!(replies.last().unwrap().0, ACK);
            self.structured = true;
        }
        let replies = self.option(GO, &info(name, &[]));
        assert_eq!(replies.last().unwrap().0, ACK, "{replies:?}");
    }

    /// Sends a request without its payload. Returns its cookie.
    pub fn send_header(&mut self, kind: u16, flags: u16, offset: u64, len: u32) -> u64 {
        self.cookie += 1;
        let header = header(kind, flags, self.cookie, offset, len);
        self.send(&header);
        self.cookie
    }

    pub fn reply(&mut self) -> Reply {
        self.reply_to(0)
    }

    /// Receives a reply. A simple reply without an error has `len` bytes of data.
    pub fn reply_to(&mut self, len: u32) -> Reply {
        self.reply_by(|_| len)
    }

    /// Receives a reply. A simple reply without an error has `len(cookie)` bytes of data.
    pub fn reply_by(&mut self, len: impl Fn(u64) -> u32) -> Reply {
        self.replies.next(&mut self.stream, len)
    }

    /// Sends a request and waits for its reply.
    pub fn request(&mut self, kind: u16, flags: u16, offset: u64, len: u32) -> Reply {
        let cookie = self.send_header(kind, flags, offset, len);
        let reply = self.reply_to(if kind == READ { len } else { 0 });
        assert_eq!(reply.cookie, cookie);
        reply
    }

    pub fn error_of(&mut self, kind: u16, flags: u16, offset: u64, len: u32) -> u32 {
        self.request(kind, flags, offset, len).error
    }

    pub fn write(&mut self, flags: u16, offset: u64, bytes: &[u8]) -> u32 {
        let cookie = self.send_header(WRITE, flags, offset, bytes.len() as u32);
        self.send(bytes);
        let reply = self.reply();
        assert_eq!(reply.cookie, cookie);
        reply.error
    }

    pub fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        let reply = self.request(READ, 0, offset, len);
        assert_eq!(reply.error, 0);
        if !self.structured {
            return reply.parts.into_iter().next().unwrap().1;
        }
        let mut at = offset;
        let mut bytes = Vec::new();
        for (start, part) in reply.parts {
            assert_eq!(start, at);
            at += part.len() as u64;
            bytes.extend(part);
        }
        assert_eq!(bytes.len(), len as usize);
        bytes
    }
}

/// Returns bytes that differ for each `nth`, and that compress to about a half.
pub fn contents(nth: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(testkit::seed_of(nth));
    let mut bytes = vec![b'.'; len];
    for piece in bytes.chunks_mut(16) {
        let half = piece.len() / 2;
        random.fill(&mut piece[..half]);
    }
    bytes
}
