//! What the tests share: a server on a socket of its own, and a client that says exactly what it is
//! told to.
#![allow(dead_code, reason = "each test file uses a part")]

use serve::nbd::{Export, Exports, Mode, Options, Server};
use serve::{Address, Disk, Log};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zram::{Config, Device};

pub const MIB: u64 = 1 << 20;

pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
pub const EXPORT_NAME: u32 = 1;
pub const ABORT: u32 = 2;
pub const LIST: u32 = 3;
pub const STARTTLS: u32 = 5;
pub const INFO: u32 = 6;
pub const GO: u32 = 7;
pub const STRUCTURED_REPLY: u32 = 8;
pub const LIST_META_CONTEXT: u32 = 9;
pub const SET_META_CONTEXT: u32 = 10;

pub const ACK: u32 = 1;
pub const ERR_UNSUP: u32 = (1 << 31) + 1;
pub const ERR_POLICY: u32 = (1 << 31) + 2;
pub const ERR_INVALID: u32 = (1 << 31) + 3;
pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;
pub const DF: u16 = 4;
pub const REQ_ONE: u16 = 8;
pub const FAST_ZERO: u16 = 16;

pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const EOVERFLOW: u32 = 75;

/// A server, and all it logged.
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

/// A disk of 64 MiB that any export name of these tests leads to, read-only as `fixed`.
pub fn exports() -> Exports {
    let disk: Arc<dyn Disk> = Arc::new(device(Config::new(64 * MIB).unwrap()));
    Exports::new([
        export("disk", disk.clone(), Mode::ReadWrite),
        export("fixed", disk, Mode::ReadOnly),
    ])
}

/// So that no thread is left at the end of a test.
impl Drop for Served {
    fn drop(&mut self) {
        self.server.stop(SOON);
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

    /// Connected, and nothing said yet.
    pub fn connect(&self) -> Client {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
        Client { stream, structured: false, cookie: 0, begun: HashMap::new() }
    }

    /// Greeted, with flags exchanged.
    pub fn greeted(&self) -> Client {
        let mut client = self.connect();
        client.greet(3);
        client
    }

    /// With `disk` chosen, structured replies and block status.
    pub fn chosen(&self) -> Client {
        let mut client = self.greeted();
        client.choose("disk", true);
        client
    }

    /// Waits for a line of the log that holds `part`.
    pub fn logged(&self, part: &str) {
        let is_there = || self.log.lock().unwrap().iter().any(|line| line.contains(part));
        assert!(comes(is_there), "{part:?} was not logged: {:?}", self.log.lock().unwrap());
    }

    /// All lines of the log.
    pub fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until so many clients have an export.
    pub fn settled(&self, connections: usize) {
        let are_so_many = || self.server.connections() == connections;
        assert!(comes(are_so_many), "{} connections are left", self.server.connections());
    }
}

/// How long it is waited for what comes soon: a machine may be busy.
pub const SOON: Duration = Duration::from_secs(60);

/// A server ends in this time, whatever clients do: those that it would wait for have longer.
pub const ENDS_WITHIN: Duration = Duration::from_secs(29);

/// Waits until it is so; whether it came.
pub fn comes(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    is_so()
}

/// How long a random client waits for an answer before it calls it lost: 60 s, as a machine may be
/// busy, or `UZRAM_ANSWER_SECONDS`.
pub fn patience() -> Duration {
    let asked = std::env::var("UZRAM_ANSWER_SECONDS").ok().and_then(|text| text.parse().ok());
    asked.map_or(SOON, Duration::from_secs_f64)
}

pub struct Client {
    pub stream: UnixStream,
    pub structured: bool,
    cookie: u64,
    /// Replies of which not all chunks have come: others may come between them.
    begun: HashMap<u64, Reply>,
}

/// An answer to a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    /// Parts with where they lie, of a read.
    pub parts: Vec<(u64, Vec<u8>)>,
    /// Lengths and flags, of a block status.
    pub extents: Vec<(u32, u32)>,
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).expect("the server answers in time");
        bytes
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.receive(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.receive(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.receive(8).try_into().unwrap())
    }

    /// Whether the server ends the connection without a byte more.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
            Ok(_) => false,
        }
    }

    pub fn greet(&mut self, flags: u32) {
        assert_eq!(self.receive(8), b"NBDMAGIC");
        assert_eq!(self.u64(), IHAVEOPT);
        assert_eq!(self.u16(), 3);
        self.send(&flags.to_be_bytes());
    }

    pub fn send_option(&mut self, option: u32, data: &[u8]) {
        let len = data.len() as u32;
        let parts = [&IHAVEOPT.to_be_bytes()[..], &option.to_be_bytes(), &len.to_be_bytes(), data];
        self.send(&parts.concat());
    }

    /// One reply to an option.
    pub fn option_reply(&mut self, option: u32) -> (u32, Vec<u8>) {
        assert_eq!(self.u64(), 0x0003_e889_0455_65a9);
        assert_eq!(self.u32(), option);
        let (kind, len) = (self.u32(), self.u32());
        (kind, self.receive(len as usize))
    }

    /// All replies to an option, up to the last one.
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

    /// The only reply's kind.
    pub fn option_kind(&mut self, option: u32, data: &[u8]) -> u32 {
        let replies = self.option(option, data);
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies[0].0
    }

    pub fn choose(&mut self, name: &str, structured: bool) {
        if structured {
            assert_eq!(self.option_kind(STRUCTURED_REPLY, &[]), ACK);
            let replies = self.option(SET_META_CONTEXT, &contexts(name, &["base:allocation"]));
            assert_eq!(replies.last().unwrap().0, ACK);
            self.structured = true;
        }
        let replies = self.option(GO, &info(name, &[]));
        assert_eq!(replies.last().unwrap().0, ACK, "{replies:?}");
    }

    /// Sends a request without its payload; its cookie.
    pub fn send_header(&mut self, kind: u16, flags: u16, offset: u64, len: u32) -> u64 {
        self.cookie += 1;
        let header = header(kind, flags, self.cookie, offset, len);
        self.send(&header);
        self.cookie
    }

    pub fn reply(&mut self) -> Reply {
        self.reply_to(0)
    }

    /// A reply, whose data have `len` bytes where its kind does not say.
    pub fn reply_to(&mut self, len: u32) -> Reply {
        self.reply_by(|_| len)
    }

    /// A reply, whose data have as many bytes as its cookie says where its kind does not.
    pub fn reply_by(&mut self, len: impl Fn(u64) -> u32) -> Reply {
        match self.u32() {
            0x6744_6698 => {
                let (error, cookie) = (self.u32(), self.u64());
                let len = if error == 0 { len(cookie) } else { 0 };
                let parts = vec![(0, self.receive(len as usize))];
                Reply { cookie, error, parts, extents: Vec::new() }
            }
            0x668e_33ef => self.chunks(),
            magic => panic!("{magic:#x} begins no reply"),
        }
    }

    /// The rest of a chunk, and more up to the last one of a structured reply.
    fn chunks(&mut self) -> Reply {
        loop {
            let (flags, kind, cookie, len) = (self.u16(), self.u16(), self.u64(), self.u32());
            let mut reply = self.begun.remove(&cookie).unwrap_or_default();
            reply.cookie = cookie;
            match kind {
                0 => assert_eq!(len, 0),
                1 => {
                    let at = self.u64();
                    reply.parts.push((at, self.receive(len as usize - 8)));
                }
                5 => {
                    assert_eq!(self.u32(), 1);
                    let pairs = (0..(len - 4) / 8).map(|_| (self.u32(), self.u32()));
                    reply.extents.extend(pairs.collect::<Vec<_>>());
                }
                0x8001 => {
                    reply.error = self.u32();
                    let message = self.u16();
                    self.receive(message as usize);
                }
                kind => panic!("there is no chunk of type {kind}"),
            }
            if flags & 1 != 0 {
                return reply;
            }
            self.begun.insert(cookie, reply);
            assert_eq!(self.u32(), 0x668e_33ef);
        }
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

pub fn header(kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let parts = [
        &0x2560_9513_u32.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        &len.to_be_bytes(),
    ];
    parts.concat()
}

/// Data of INFO and GO.
pub fn info(name: &str, asked: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((asked.len() as u16).to_be_bytes());
    asked.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

/// Bytes that shrink somewhat, others for each number.
pub fn contents(nth: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(testkit::seed_of(nth));
    let mut bytes = vec![b'.'; len];
    for piece in bytes.chunks_mut(16) {
        let half = piece.len() / 2;
        random.fill(&mut piece[..half]);
    }
    bytes
}
