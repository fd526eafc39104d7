//! Memory and descriptors that bad clients take: alone in its process, so that they can be told.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serve::nbd::Options;
use std::fs;
use std::io::Write;
use std::thread;
use std::time::Duration;
use support::*;

/// What bad clients may take together.
const BOUND: u64 = 96 << 20;

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Fills what a client can: a long write half sent, replies not taken, requests that are none.
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
    // A socket goes a moment after its connection ended.
    until("descriptors are closed", || descriptors() <= opened);
    assert_eq!(served.chosen().read(0, 512).len(), 512);
}
