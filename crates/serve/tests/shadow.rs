//! Requests of chance, many at a time, against an array that holds what must be there.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use fastrand::Rng;
use serve::nbd::{Exports, Mode};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use support::*;
use zram::{Config, Device};

/// Bytes of each client's part of the disk. Parts begin between blocks, so that clients share some.
const PART: usize = (4 << 20) + 1234;
const CLIENTS: u64 = 3;

/// Most bytes of a request but now and then.
const SHORT: usize = 40_000;

struct Shadow {
    client: Client,
    random: Rng,
    base: u64,
    bytes: Vec<u8>,
    /// Where requests are under way, by cookie; no two of them touch the same byte.
    pending: HashMap<u64, Pending>,
    next: u64,
}

struct Pending {
    kind: u16,
    at: usize,
    len: usize,
    after: Vec<u8>,
}

impl Shadow {
    fn send_one(&mut self) {
        let longest = if self.random.u32(..200) == 0 { 1 << 20 } else { SHORT };
        let len = if self.random.bool() {
            self.random.usize(1..5000)
        } else {
            self.random.usize(1..longest)
        };
        let at = self.random.usize(..PART - len);
        if self.pending.values().any(|other| at < other.at + other.len && other.at < at + len) {
            return;
        }
        let (kind, flags) = match self.random.u32(..10) {
            0..4 => (WRITE, 0),
            4..8 => (READ, 0),
            8 => (WRITE_ZEROES, if self.random.bool() { NO_HOLE } else { 0 }),
            _ => (TRIM, 0),
        };
        let before = &self.bytes[at..at + len];
        let after = match kind {
            WRITE if self.random.u32(..5) == 0 => vec![self.random.u8(..); len],
            WRITE => contents(self.random.u64(..), len),
            WRITE_ZEROES => vec![0; len],
            TRIM => self.trimmed(at, len),
            _ => before.to_vec(),
        };
        self.next += 1;
        let mut request = header(kind, flags, self.next, self.base + at as u64, len as u32);
        if kind == WRITE {
            request.extend(&after);
        }
        self.pending.insert(self.next, Pending { kind, at, len, after });
        self.client.send(&request);
    }

    /// Whole blocks are freed, and those at the ends stay as they are.
    fn trimmed(&self, at: usize, len: usize) -> Vec<u8> {
        let mut after = self.bytes[at..at + len].to_vec();
        let start = self.base + at as u64;
        let (first, last) = (start.next_multiple_of(4096), (start + len as u64) / 4096 * 4096);
        if first < last {
            after[(first - start) as usize..(last - start) as usize].fill(0);
        }
        after
    }

    fn receive_one(&mut self) {
        let reply = self.client.reply();
        let Pending { kind, at, len, after } = self.pending.remove(&reply.cookie).unwrap();
        assert_eq!(reply.error, 0);
        self.bytes[at..at + len].copy_from_slice(&after);
        if kind == READ {
            let mut from = self.base + at as u64;
            let mut read: Vec<u8> = Vec::new();
            for (start, part) in &reply.parts {
                assert_eq!(*start, from);
                from += part.len() as u64;
                read.extend(part);
            }
            assert!(read == after, "{len} bytes at {from} are others");
        }
    }

    fn run(mut self, until: Instant) -> u64 {
        while Instant::now() < until {
            // Few enough that the answers fit the socket's buffer: this client sends and receives by turns.
            for _ in 0..self.random.usize(1..24) {
                let under_way: usize = self.pending.values().map(|pending| pending.len).sum();
                if under_way < 120_000 {
                    self.send_one();
                }
            }
            let keep = self.random.usize(..8);
            while self.pending.len() > keep {
                self.receive_one();
            }
        }
        while !self.pending.is_empty() {
            self.receive_one();
        }
        assert!(self.client.read(self.base, PART as u32) == self.bytes);
        self.next
    }
}

fn seconds() -> u64 {
    if std::env::var_os("UZRAM_LONG").is_some() { 180 } else { 8 }
}

#[test]
fn all_bytes_are_as_an_array_has_them() {
    let seed = seed();
    let config =
        Config { algorithm: zcomp::by_name("lz4").unwrap(), ..Config::new(64 * MIB).unwrap() };
    let device = device(config);
    let disk = Arc::new(device.clone());
    let served = Served::new(Exports::new([export("disk", disk, Mode::ReadWrite)]));
    let until = Instant::now() + Duration::from_secs(seconds());
    let is_over = AtomicBool::new(false);
    let requests: u64 = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|nth| {
                let shadow = Shadow {
                    client: served.chosen(),
                    random: Rng::with_seed(seed ^ nth),
                    base: nth * PART as u64,
                    bytes: vec![0; PART],
                    pending: HashMap::new(),
                    next: 0,
                };
                scope.spawn(move || shadow.run(until))
            })
            .collect();
        scope.spawn(|| meddle(&device, &is_over));
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Relaxed);
        ended.into_iter().map(Result::unwrap).sum()
    });
    eprintln!("{requests} requests");
    served.server.stop(Duration::from_secs(5));
    device.check();
}

/// Compacts, marks and looks around meanwhile.
fn meddle(device: &Device, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        device.compact();
        device.mark_idle().unwrap();
        assert!(device.block_state().count() <= (64 << 20) / 4096);
        thread::sleep(Duration::from_millis(2));
    }
}
