//! Compares the answers to many concurrent random requests with an array of the expected contents.
//! A missing answer is detected.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use fastrand::Rng;
use serve::nbd::bounds::*;
use serve::nbd::{Exports, Mode, Options};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use support::*;
use zram::{Config, Device};

/// The number of bytes of each client's part of the disk. The number is not a multiple of the block
/// size, so that adjacent parts share a block.
const REGION: usize = (4 << 20) + 1234;
const CLIENTS: u64 = 8;
const SIZE: u64 = 64 * MIB;

/// The maximum number of requests in flight per client.
const DEPTH: usize = 64;

struct Shadow {
    client: Client,
    /// The channel to the thread that sends requests.
    out: Sender<Vec<u8>>,
    random: Rng,
    base: u64,
    bytes: Vec<u8>,
    /// The requests in flight, by cookie. No two requests in flight access one byte.
    pending: HashMap<u64, Pending>,
    next: u64,
    /// The number of this client's reads and writes that the server treats as long requests.
    long: u64,
}

struct Pending {
    kind: u16,
    flags: u16,
    at: usize,
    len: usize,
    error: u32,
    after: Vec<u8>,
    since: Instant,
}

impl Shadow {
    /// Chooses a length: mostly short, often around a limit of the server, and occasionally long.
    fn len(&mut self) -> usize {
        match self.random.u32(..20) {
            0..8 => self.random.usize(1..5000),
            8..11 => 512 * self.random.usize(1..17),
            11 => self.random.usize(..3),
            12..15 => self.random.usize(1..40_000),
            15..19 => {
                let bounds = [
                    HEAVY_BYTES,
                    4 * HEAVY_BYTES,
                    INPUT_BUFFER,
                    READ_PART,
                    WORKER_BUFFER,
                    64 * HEAVY_BYTES,
                ];
                let (near, bound) = (self.random.usize(..60), self.random.choice(bounds).unwrap());
                // Some lengths are below the limit by the size of further requests or answers.
                let between = self.random.choice([0, 0, 28 + 512, 9 * 540]).unwrap();
                bound - between + near - 30
            }
            _ => self.random.usize(1..1 << 20),
        }
    }

    /// Returns a request that is answered with an error and changes nothing. The payload of the
    /// invalid request is sent, too.
    fn bad(&mut self) -> (u16, u16, u64, usize, u32) {
        let len = self.len();
        let structured = self.client.structured;
        match self.random.u32(..7) {
            0 => (READ, 0, SIZE - len as u64 + 1, len, EINVAL),
            1 => (WRITE, 0, SIZE - len as u64 + 1, len, ENOSPC),
            2 => (WRITE_ZEROES, NO_HOLE, SIZE - len as u64 + 1, len, ENOSPC),
            3 => (WRITE, DF, self.base, len, EINVAL),
            4 => (9, 0, self.base, len, EINVAL),
            5 if structured => (READ, DF, self.base, READ_PART + 1 + len, EOVERFLOW),
            5 => (BLOCK_STATUS, 0, self.base, len, EINVAL),
            _ => (READ, 0, 0, PAYLOAD_MAX as usize + 1, EINVAL),
        }
    }

    fn good(&mut self) -> Option<(u16, u16, usize, usize)> {
        let len = self.len();
        let at = self.random.usize(..REGION - len);
        let is_free = |other: &Pending| other.at + other.len <= at || at + len <= other.at;
        if !self.pending.values().all(is_free) {
            return None;
        }
        let structured = self.client.structured;
        let (kind, flags) = match self.random.u32(..24) {
            0..8 => (WRITE, 0),
            8..15 => (READ, 0),
            15 if structured && len <= READ_PART => (READ, DF),
            16..18 => (WRITE_ZEROES, self.random.choice([0, NO_HOLE]).unwrap()),
            18 => (WRITE_ZEROES, FAST_ZERO),
            19 | 20 => (TRIM, 0),
            21 if structured && len > 0 => {
                (BLOCK_STATUS, self.random.choice([0, REQ_ONE]).unwrap())
            }
            22 => (CACHE, 0),
            _ => return Some((FLUSH, 0, 0, 0)),
        };
        let fua = if self.random.u32(..8) == 0 { FUA } else { 0 };
        Some((kind, flags | fua, at, len))
    }

    /// Adds a request to the bytes to send.
    fn add(&mut self, burst: &mut Vec<u8>) {
        self.next += 1;
        let since = Instant::now();
        if self.random.u32(..40) == 0 {
            let (kind, flags, offset, len, error) = self.bad();
            burst.extend(header(kind, flags, self.next, offset, len as u32));
            if kind == WRITE {
                burst.extend(vec![0xbb; len]);
            }
            let pending = Pending { kind, flags, at: 0, len: 0, error, after: Vec::new(), since };
            self.pending.insert(self.next, pending);
            return;
        }
        let Some((kind, flags, at, len)) = self.good() else { return };
        let before = &self.bytes[at..at + len];
        let after = match kind {
            WRITE if self.random.u32(..5) == 0 => vec![self.random.u8(..); len],
            WRITE => contents(self.random.u64(..), len),
            WRITE_ZEROES | TRIM => vec![0; len],
            _ => before.to_vec(),
        };
        self.long += u64::from(matches!(kind, READ | WRITE) && len > READ_PART);
        let offset = if kind == FLUSH { 0 } else { self.base + at as u64 };
        burst.extend(header(kind, flags, self.next, offset, len as u32));
        if kind == WRITE {
            burst.extend(&after);
        }
        let pending = Pending { kind, flags, at, len, error: 0, after, since };
        self.pending.insert(self.next, pending);
    }

    fn receive_one(&mut self) {
        let Shadow { client, pending, .. } = self;
        let len =
            |cookie| {
                pending.get(&cookie).map_or(0, |asked: &Pending| {
                    if asked.kind == READ { asked.len as u32 } else { 0 }
                })
            };
        let reply = client.reply_by(len);
        let asked = pending.remove(&reply.cookie).expect("nothing is answered twice");
        // Later requests may be answered while an earlier answer is overdue, so the oldest request
        // is checked.
        let oldest = pending.values().map(|asked| asked.since).min();
        assert!(oldest.is_none_or(|since| since.elapsed() < patience()), "an answer is lost");
        assert_eq!(reply.error, asked.error, "{} of {}", asked.kind, asked.len);
        let Pending { kind, flags, at, len, after, .. } = asked;
        self.bytes[at..at + len].copy_from_slice(&after);
        match kind {
            READ if reply.error == 0 => self.compare(at, &after, &reply),
            BLOCK_STATUS if reply.error == 0 => self.compare_extents(at, len, flags, &reply),
            _ => {}
        }
    }

    fn compare(&self, at: usize, expected: &[u8], reply: &Reply) {
        let first = if self.client.structured { self.base + at as u64 } else { 0 };
        let mut read: Vec<u8> = Vec::new();
        for (start, part) in &reply.parts {
            assert_eq!(*start, first + read.len() as u64);
            read.extend(part);
        }
        assert!(
            read == expected,
            "{} bytes at {} are others",
            expected.len(),
            self.base + at as u64
        );
    }

    /// Checks that holes read as zeros.
    fn compare_extents(&self, at: usize, len: usize, flags: u16, reply: &Reply) {
        let told = &reply.extents;
        assert!(!told.is_empty() && told.len() <= EXTENTS_MAX);
        assert!(flags & REQ_ONE == 0 || told.len() == 1, "{told:?}");
        let mut from = at;
        for (extent, state) in told {
            let bytes = &self.bytes[from..from + *extent as usize];
            assert!(*state == 0 || bytes.iter().all(|byte| *byte == 0), "a hole at {from} is full");
            from += *extent as usize;
        }
        assert!(from <= at + len);
    }

    /// Returns how many requests were sent, and how many of them were long.
    fn run(mut self, until: Instant) -> [u64; 2] {
        while Instant::now() < until {
            let mut burst = Vec::new();
            let goal = self.random.usize(1..=DEPTH);
            // If no range without a request in flight is found, fewer requests are sent.
            for _ in 0..2 * DEPTH {
                if self.pending.len() < goal {
                    self.add(&mut burst);
                }
            }
            self.out.send(burst).unwrap();
            let keep = self.random.usize(..DEPTH);
            while self.pending.len() > keep {
                self.receive_one();
            }
        }
        while !self.pending.is_empty() {
            self.receive_one();
        }
        assert!(self.client.read(self.base, REGION as u32) == self.bytes);
        [self.next, self.long]
    }
}

fn seconds() -> u64 {
    testkit::scaled(5, 180) as u64
}

/// Sends each burst from the channel until the channel closes. If the connection has ended, the
/// receiving side notices the missing answers.
fn send(mut stream: impl Write, bursts: Receiver<Vec<u8>>) {
    let _ = bursts.into_iter().try_for_each(|burst| stream.write_all(&burst));
}

#[test]
fn all_bytes_are_as_an_array_has_them() {
    let seed = testkit::random_seed();
    let mut random = Rng::with_seed(seed);
    let config = Config {
        algorithm: zcomp::by_name("lz4").unwrap(),
        block: random.choice([4096, 4096, 65536]).unwrap(),
        ..Config::new(SIZE).unwrap()
    };
    let workers = random.usize(1..=8);
    eprintln!("{workers} workers, blocks of {}", config.block);
    let device = device(config);
    let exports = [export("disk", Arc::new(device.clone()), Mode::ReadWrite)];
    let served = Served::with(Exports::new(exports), Options { workers, connections: 64 });
    let until = Instant::now() + Duration::from_secs(seconds());
    let is_over = AtomicBool::new(false);
    let requests = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|nth| {
                let mut client = served.greeted();
                client.choose("disk", nth % 4 != 0);
                client.stream.set_read_timeout(Some(patience())).unwrap();
                let ((out, bursts), stream) = (channel(), client.stream.try_clone().unwrap());
                scope.spawn(move || send(stream, bursts));
                let shadow = Shadow {
                    client,
                    out,
                    random: Rng::with_seed(seed ^ nth),
                    base: nth * REGION as u64,
                    bytes: vec![0; REGION],
                    pending: HashMap::new(),
                    next: 0,
                    long: 0,
                };
                scope.spawn(move || shadow.run(until))
            })
            .collect();
        scope.spawn(|| meddle(&device, &is_over));
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Relaxed);
        ended
            .into_iter()
            .map(Result::unwrap)
            .fold([0; 2], |[all, long], [more, longer]| [all + more, long + longer])
    });
    eprintln!("{requests:?} requests, and long ones");
    assert!(requests[1] > 0, "none was long");
    served.server.stop(Duration::from_secs(5));
    device.check();
}

/// Compacts, marks slots idle, and reads the states of slots during the test.
fn meddle(device: &Device, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        device.compact();
        device.mark_idle().unwrap();
        assert!(device.block_state().count() as u64 <= SIZE / 4096);
        thread::sleep(Duration::from_millis(2));
    }
}
