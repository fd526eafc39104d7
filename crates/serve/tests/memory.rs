//! Measures the memory and descriptors that misbehaving clients take. The tests run one at a time,
//! because each test measures the memory of the whole process.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serve::nbd::Options;
use serve::nbd::bounds::{EXTRA_WORKERS, READ_PART, memory_max};
use std::fs;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use support::*;

static PROCESS: Mutex<()> = Mutex::new(());

/// The maximum number of bytes of memory that misbehaving clients are allowed to take together.
const BOUND: u64 = 96 << 20;

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident() -> u64 {
    status("VmRSS:") << 10
}

fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Misbehaves in one of four ways. The client sends an incomplete long write, receives no replies
/// to reads, receives no replies to writes, or sends invalid requests.
fn misbehave(nth: usize, client: &mut Client) {
    client.stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
    match nth % 4 {
        0 => {
            client.send_header(WRITE, 0, 0, 32 << 20);
            let _ = client.stream.write_all(&vec![1; 16 << 20]);
        }
        1 => {
            let request = header(READ, 0, 1, 0, 256 << 10);
            while client.stream.write_all(&request).is_ok() {}
        }
        2 => {
            let write = [header(WRITE, 0, 1, 0, 256 << 10), vec![1; 256 << 10]].concat();
            let _ = (0..20).try_for_each(|_| client.stream.write_all(&write));
        }
        _ => drop(client.stream.write_all(&vec![0x25; 1 << 20])),
    }
}

#[test]
fn memory_of_bad_clients_is_bounded_and_comes_back() {
    let _alone = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let served = Served::with(exports(), Options { workers: 2, connections: 64 });
    drop(served.chosen());
    served.settled(0);
    let (before, opened) = (resident(), descriptors());
    for _ in 0..3 {
        let mut clients: Vec<_> = (0..64).map(|_| served.chosen()).collect();
        clients.iter_mut().enumerate().for_each(|(nth, client)| misbehave(nth, client));
        thread::sleep(Duration::from_millis(300));
        let most = resident();
        eprintln!("{} MiB", most.saturating_sub(before) >> 20);
        assert!(most < before + BOUND, "{before} {most}");
        drop(clients);
        served.settled(0);
    }
    // The server closes a socket a moment after the connection has ended.
    until("descriptors are closed", || descriptors() <= opened);
    assert_eq!(served.chosen().read(0, 512).len(), 512);
}

/// Each client requests enough data to fill the buffers of 64 workers.
#[test]
fn clients_that_take_no_replies_share_one_bound_and_hold_up_no_other() {
    const CLIENTS: usize = 60;
    let _alone = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let served = Served::with(exports(), Options { workers: 64, connections: 64 });
    drop(served.chosen());
    served.settled(0);
    let (before, threads) = (resident(), status("Threads:"));
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| served.chosen()).collect();
    let reads: Vec<u8> = (0..200).flat_map(|nth| header(READ, 0, nth, 0, 256 << 10)).collect();
    clients.iter_mut().for_each(|client| client.send(&reads));
    let most = |_| {
        thread::sleep(Duration::from_millis(50));
        (resident() - before, status("Threads:") - threads)
    };
    let (most, workers) = (0..20).map(most).max().unwrap();
    eprintln!("{} MiB, {workers} threads", most >> 20);
    assert!(most > (CLIENTS * READ_PART) as u64, "each client has a reply: {most}");
    assert!(most < memory_max(CLIENTS) as u64, "{most}");
    assert!(workers <= (CLIENTS + EXTRA_WORKERS) as u64, "{workers}");
    let begun = Instant::now();
    let mut client = served.chosen();
    assert_eq!(client.write(0, 4096, &[7; 4096]), 0);
    assert_eq!(client.read(0, MIB as u32).len(), MIB as usize);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(clients);
    served.settled(1);
    // Idle extra workers end, but the first worker of the connection stays.
    until("workers end", || status("Threads:") <= threads + 1);
}
