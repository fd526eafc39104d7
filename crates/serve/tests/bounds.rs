//! Tests requests below, at, and above every limit of the server. Short and long requests are
//! queued before and after each tested request. Each request is answered once, with its own data.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serve::nbd::bounds::*;
use serve::nbd::{Exports, Mode, Options};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::thread;
use support::*;
use zram::{Config, Device};

const SIZE: u64 = 144 * MIB;
/// Reads lie below this offset, and writes above it.
const WRITABLE: u64 = 34 * MIB;

const SHORT: u32 = 512;
const LONG: u32 = READ_PART as u32 + 1;

/// A request. If the request is a write, its position determines its data.
#[derive(Clone, Copy, Debug)]
struct Ask {
    kind: u16,
    flags: u16,
    len: u32,
    error: u32,
}

fn ask(kind: u16, len: u32) -> Ask {
    Ask { kind, flags: 0, len, error: 0 }
}

struct Bench {
    served: Served,
    device: Arc<Device>,
    /// The contents below `WRITABLE`.
    data: Vec<u8>,
}

impl Bench {
    fn new(workers: usize) -> Self {
        let device = device(Config::new(SIZE).unwrap());
        let data = contents(1, WRITABLE as usize);
        device.write(0, &data).unwrap();
        let export = export("disk", Arc::new(device.clone()), Mode::ReadWrite);
        let served = Served::with(Exports::new([export]), Options { workers, connections: 9 });
        Bench { served, device, data }
    }

    fn client(&self, structured: bool) -> Client {
        let mut client = self.served.greeted();
        client.choose("disk", structured);
        client.stream.set_read_timeout(Some(patience())).unwrap();
        client.stream.set_write_timeout(Some(patience())).unwrap();
        client
    }

    /// Sends all requests at once. Checks that each request is answered once, and that the written
    /// data are stored.
    fn exchange(&self, client: &mut Client, asks: &[Ask]) {
        self.exchange_from(client, asks, WRITABLE);
    }

    /// Does the same as `exchange`, with writes from the offset `writable` on.
    fn exchange_from(&self, client: &mut Client, asks: &[Ask], mut writable: u64) {
        let mut bytes = Vec::new();
        let mut pending = HashMap::new();
        for (cookie, ask) in asks.iter().enumerate() {
            let cookie = cookie as u64 + 1;
            let at = match ask.kind {
                READ | BLOCK_STATUS => 7 * cookie,
                FLUSH => 0,
                _ => writable,
            };
            bytes.extend(header(ask.kind, ask.flags, cookie, at, ask.len));
            if ask.kind == WRITE {
                bytes.extend(contents(cookie, ask.len as usize));
            }
            if at >= WRITABLE {
                // Some writes begin within blocks, and none overlaps another.
                writable += u64::from(ask.len) + 4099;
            }
            pending.insert(cookie, (*ask, at));
        }
        assert!(writable <= SIZE, "the disk is too small for this test");
        let mut sender = client.stream.try_clone().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || sender.write_all(&bytes).unwrap());
            while !pending.is_empty() {
                let reply = client.reply_by(|cookie| {
                    let (ask, _) = pending.get(&cookie).unwrap();
                    if ask.kind == READ { ask.len } else { 0 }
                });
                let (ask, at) = pending.remove(&reply.cookie).expect("it was answered before");
                assert_eq!(reply.error, ask.error, "{ask:?} of {asks:?}");
                if reply.error == 0 {
                    self.verify(&ask, at, &reply);
                }
            }
        });
    }

    fn verify(&self, ask: &Ask, at: u64, reply: &Reply) {
        let len = ask.len as usize;
        let mut stored = vec![0; len];
        match ask.kind {
            READ => {
                let read = reply.parts.iter().flat_map(|(_, part)| part);
                assert!(read.eq(&self.data[at as usize..][..len]), "{ask:?} at {at}");
            }
            WRITE => {
                self.device.read(at, &mut stored).unwrap();
                assert!(stored == contents(reply.cookie, len), "{ask:?} at {at}");
            }
            WRITE_ZEROES => {
                self.device.read(at, &mut stored).unwrap();
                assert!(stored.iter().all(|byte| *byte == 0), "{ask:?} at {at}");
            }
            BLOCK_STATUS => assert!(!reply.extents.is_empty()),
            _ => {}
        }
    }
}

/// Returns lists of requests to queue before or after another request.
fn neighbours() -> Vec<Vec<Ask>> {
    let short = ask(READ, SHORT);
    vec![
        vec![short; 8],
        vec![],
        vec![ask(READ, LONG)],
        vec![ask(WRITE, LONG)],
        vec![short, ask(WRITE, SHORT), ask(READ, LONG), short],
        vec![ask(WRITE, SHORT), ask(WRITE, LONG), short, ask(FLUSH, 0)],
        vec![ask(READ, WORKER_BUFFER as u32), short, ask(TRIM, 8192)],
    ]
}

/// Returns each limit, and each limit minus the length of each kind of header. The result also
/// contains each length minus 1 and plus 1.
fn lengths() -> Vec<u32> {
    let headers = [0, 16, 20, 26, 28];
    let whole = [HEAVY_BYTES, 4 * HEAVY_BYTES, INPUT_BUFFER, READ_PART, WORKER_BUFFER].into_iter();
    let mut lengths: Vec<u32> = whole
        .flat_map(|bound| headers.map(|header| bound - header))
        .chain([1, SHORT as usize, 4096, 64 * HEAVY_BYTES, 300_000])
        .flat_map(|bound| [bound - 1, bound, bound + 1])
        .map(|len| len as u32)
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Sends requests of every length among other requests. `all` selects more combinations.
fn at_every_length(bench: &Bench, structured: bool, all: bool) {
    let mut client = bench.client(structured);
    let (neighbours, mut turn) = (neighbours(), 0);
    for len in lengths() {
        let mut asks = vec![ask(READ, len), ask(WRITE, len)];
        if structured && len > 0 {
            let error = if len as usize > READ_PART { EOVERFLOW } else { 0 };
            asks.push(Ask { flags: DF, error, ..ask(READ, len) });
            asks.push(ask(BLOCK_STATUS, len));
        }
        asks.extend([ask(TRIM, len), ask(WRITE_ZEROES, len)]);
        asks.push(Ask { flags: NO_HOLE, ..ask(WRITE_ZEROES, len) });
        for middle in asks {
            // This request and eight short requests after it form one batch if possible.
            let mut around = vec![(1, 0)];
            let count = if all { neighbours.len() } else { 1 };
            around.extend((0..count).map(|_| {
                turn += 1;
                (turn / neighbours.len() % neighbours.len(), turn % neighbours.len())
            }));
            for (front, behind) in around {
                let parts = [&neighbours[front][..], &[middle], &neighbours[behind]];
                bench.exchange(&mut client, &parts.concat());
            }
        }
    }
}

fn is_long() -> bool {
    std::env::var_os("UZRAM_LONG").is_some()
}

#[test]
fn requests_of_every_length_are_answered_beside_others() {
    let workers = if is_long() { vec![1, 2, 3, 4, 5, 6, 7, 8] } else { vec![1, 3] };
    for workers in workers {
        let bench = Bench::new(workers);
        for structured in [false, true] {
            at_every_length(&bench, structured, is_long());
        }
        bench.device.check();
    }
}

/// Sends short reads before and after a read with about the maximum length of a short read.
#[test]
fn short_requests_behind_a_long_read_are_answered() {
    for (workers, structured) in [(1, false), (1, true), (2, false), (4, true)] {
        let bench = Bench::new(workers);
        let mut client = bench.client(structured);
        for len in
            [READ_PART - 1, READ_PART, READ_PART + 1, READ_PART + 512, WORKER_BUFFER, 279_000]
        {
            for front in [0, 1, 4] {
                let short = ask(READ, SHORT);
                let asks = [&vec![short; front][..], &[ask(READ, len as u32)], &[short; 8]];
                bench.exchange(&mut client, &asks.concat());
            }
        }
    }
}

/// Sends enough requests for about one or two full batches, and one long request among these
/// requests.
#[test]
fn so_many_requests_are_answered() {
    for workers in [1, 2, 8] {
        let bench = Bench::new(workers);
        for structured in [false, true] {
            let mut client = bench.client(structured);
            for count in [REQUESTS - 1, REQUESTS, REQUESTS + 1, 2 * REQUESTS + 1] {
                for kind in [READ, WRITE] {
                    for place in [0, 1, (count - 1) / workers, count / 2, count - 1] {
                        let mut asks = vec![ask(READ, SHORT); count];
                        asks[place] = ask(kind, LONG);
                        bench.exchange(&mut client, &asks);
                    }
                }
            }
        }
    }
}

/// Payloads and answers fill a worker's buffer exactly, or need one byte more or less.
#[test]
fn a_buffer_may_be_full() {
    for workers in [1, 2] {
        let bench = Bench::new(workers);
        for (structured, read, done) in [(false, 16, 26), (true, 28, 26)] {
            let mut client = bench.client(structured);
            for more in [0, 1, 2] {
                let room = WORKER_BUFFER - 1 + more;
                let half = (room / 2 - read) as u32;
                let rest = (room - read - half as usize - read) as u32;
                bench.exchange(&mut client, &[ask(READ, half), ask(READ, rest), ask(READ, SHORT)]);
                let write = 40_000;
                let rest = (room - write - done - read - read - SHORT as usize) as u32;
                let asks = [ask(WRITE, write as u32), ask(READ, SHORT), ask(READ, rest)];
                bench.exchange(&mut client, &asks);
                bench.exchange(&mut client, &[&asks[..], &[ask(FLUSH, 0); 3]].concat());
            }
        }
    }
}

#[test]
fn the_longest_payloads_are_answered_with_others_around() {
    let bench = Bench::new(2);
    for structured in [false, true] {
        let mut client = bench.client(structured);
        for (len, error) in [(PAYLOAD_MAX - 1, 0), (PAYLOAD_MAX, 0), (PAYLOAD_MAX + 1, EINVAL)] {
            let short = ask(READ, SHORT);
            let mut asks = vec![short, Ask { error, ..ask(READ, len) }, short];
            // A longer write is invalid, and ends the connection.
            if error == 0 {
                asks.extend([ask(WRITE, len), short, ask(WRITE, LONG), short]);
            }
            bench.exchange(&mut client, &asks);
        }
    }
}

/// Sends long writes on two connections. The shared memory suffices for both writes or for one.
#[test]
fn memory_for_long_writes_is_shared_and_waited_for() {
    let bench = Bench::new(2);
    for more in [0, 1, 2] {
        let rest = (LARGE_BYTES - LONG as usize - 1 + more) as u32;
        thread::scope(|scope| {
            for (lens, from) in [([LONG, rest], WRITABLE), ([rest, LONG], 2 * WRITABLE)] {
                let bench = &bench;
                scope.spawn(move || {
                    let mut client = bench.client(true);
                    for len in lens {
                        let asks = [ask(WRITE, len), ask(READ, SHORT)];
                        bench.exchange_from(&mut client, &asks, from);
                    }
                });
            }
        });
    }
}

#[test]
fn extents_up_to_the_most_are_told_and_the_rest_later() {
    let bench = Bench::new(1);
    for page in (0..EXTENTS_MAX as u64 + 4).step_by(2) {
        bench.device.write(WRITABLE + page * 4096, &[7; 4096]).unwrap();
    }
    let mut client = bench.client(true);
    for count in [1, EXTENTS_MAX - 1, EXTENTS_MAX, EXTENTS_MAX + 1, EXTENTS_MAX + 2] {
        let found = client.request(BLOCK_STATUS, 0, WRITABLE, count as u32 * 4096).extents;
        assert_eq!(found.len(), count.min(EXTENTS_MAX));
        let flags = [0, 3].into_iter().cycle();
        assert!(found.iter().zip(flags).all(|(found, flags)| *found == (4096, flags)));
        let one = client.request(BLOCK_STATUS, REQ_ONE, WRITABLE, count as u32 * 4096);
        assert_eq!(one.extents, [(4096, 0)]);
    }
    // Requests the longest answers, with up to the maximum number of requests in a batch.
    for count in [2, 3, REQUESTS] {
        let statuses = vec![ask(BLOCK_STATUS, 32 * MIB as u32); count];
        bench.exchange(&mut client, &statuses);
    }
}

#[test]
fn names_and_options_of_every_length() {
    let longest = "x".repeat(STRING_MAX);
    let disk = Arc::new(device(Config::new(MIB).unwrap()));
    let exports = [("disk", disk.clone()), (&longest, disk)];
    let served =
        Served::new(Exports::new(exports.map(|(name, disk)| export(name, disk, Mode::ReadWrite))));
    let mut client = served.greeted();
    assert_eq!(client.option_kind(STRUCTURED_REPLY, &[]), ACK);
    for (len, error) in
        [(STRING_MAX - 1, ERR_UNKNOWN), (STRING_MAX, ACK), (STRING_MAX + 1, ERR_TOO_BIG)]
    {
        let name = "x".repeat(len);
        let context = "base:".to_owned() + &"x".repeat(len - 5);
        for (option, data) in [
            (INFO, info(&name, &[])),
            (LIST_META_CONTEXT, contexts(&name, &[])),
            (SET_META_CONTEXT, contexts(&name, &["base:allocation"])),
        ] {
            assert_eq!(client.option(option, &data).last().unwrap().0, error, "{option}, {len}");
        }
        let error = if error == ERR_TOO_BIG { error } else { ACK };
        let told = client.option(SET_META_CONTEXT, &contexts("disk", &[&context]));
        assert_eq!(told.last().unwrap().0, error, "{len}");
    }
    client.choose(&longest, false);
    assert_eq!(client.read(0, 9), [0; 9]);

    // Several options are sent at once, so that they begin at different offsets in the received
    // bytes.
    for len in [OPTION_DATA_MAX - 1, OPTION_DATA_MAX, INPUT_BUFFER / 2 - 17, INPUT_BUFFER / 3] {
        let mut client = served.greeted();
        let mut sender = client.stream.try_clone().unwrap();
        let options = option(99, &vec![1; len]).repeat(9);
        thread::scope(|scope| {
            scope.spawn(move || sender.write_all(&options).unwrap());
            (0..9).for_each(|_| assert_eq!(client.option_reply(99).0, ERR_UNSUP));
        });
        client.choose("disk", true);
    }
    let mut client = served.greeted();
    let len = OPTION_DATA_MAX as u32 + 1;
    client.send(&[&IHAVEOPT.to_be_bytes()[..], &[0, 0, 0, 99], &len.to_be_bytes()].concat());
    assert!(client.is_closed());

    for (count, is_closed) in
        [(OPTIONS_MAX - 1, false), (OPTIONS_MAX, false), (OPTIONS_MAX + 1, true)]
    {
        let mut client = served.greeted();
        for _ in 1..count {
            assert_eq!(client.option_kind(99, &[]), ERR_UNSUP);
        }
        client.send_option(GO, &info("disk", &[]));
        if is_closed {
            assert!(client.is_closed());
        } else {
            while client.option_reply(GO).0 != ACK {}
            assert_eq!(client.read(0, 9), [0; 9]);
        }
    }
}
