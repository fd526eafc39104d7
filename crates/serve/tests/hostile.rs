//! Tests that the server continues to serve while other clients send invalid data, stop in the
//! middle of a request, or receive no replies.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::net::sockopt::set_socket_linger;
use serve::nbd::Options;
use serve::nbd::bounds::HALF_OPEN_MAX;
use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};
use support::*;
use testkit::wait::{until_with, within};

/// Checks that a client is served while other clients misbehave. The check ends before the server
/// disconnects clients with incomplete requests.
fn is_served(served: &Served) {
    within(ENDS_WITHIN, || {
        let mut client = served.chosen();
        assert_eq!(client.write(0, 4096, b"as ever"), 0);
        assert_eq!(client.read(4096, 7), b"as ever");
    });
}

#[test]
fn bytes_that_are_no_protocol_end_the_connection() {
    let served = Served::new(exports());
    let mut client = served.connect();
    client.greet(1 << 20);
    assert!(client.is_closed());
    served.logged("unknown client flags");

    let mut client = served.greeted();
    client.send(&[b'x'; 16]);
    assert!(client.is_closed());
    served.logged("an option without the option magic");

    for len in [(64 << 10) + 1, u32::MAX] {
        let mut client = served.greeted();
        let header = [&IHAVEOPT.to_be_bytes()[..], &GO.to_be_bytes(), &len.to_be_bytes()];
        client.send(&header.concat());
        assert!(client.is_closed());
    }
    served.logged("an option longer than 64 KiB");

    let mut client = served.greeted();
    client.send_option(EXPORT_NAME, b"no");
    assert!(client.is_closed());
    served.logged("unknown export requested");

    let mut client = served.chosen();
    client.send(&[0; 28]);
    assert!(client.is_closed());
    served.logged("a request without the request magic");

    let mut client = served.chosen();
    client.send_header(WRITE, 0, 0, (32 << 20) + 1);
    assert!(client.is_closed());
    served.logged("a write longer than 32 MiB");
    is_served(&served);
}

#[test]
fn options_without_end_end_the_connection() {
    let served = Served::new(exports());
    let mut client = served.greeted();
    // The data of a long option are skipped.
    assert_eq!(client.option_kind(99, &vec![1; 64 << 10]), ERR_UNSUP);
    for _ in 1..64 {
        assert_eq!(client.option_kind(99, &[]), ERR_UNSUP);
    }
    client.send_option(99, &[]);
    assert!(client.is_closed());
    served.logged("more than 64 options");
}

#[test]
fn a_half_sent_request_changes_nothing() {
    let served = Served::new(exports());
    for whole in [28 + 4096, 28 + 300_000] {
        for len in [1, 27, 28, 29, whole - 1] {
            let mut client = served.chosen();
            let mut bytes = header(WRITE, 0, 1, 0, (whole - 28) as u32);
            bytes.extend(vec![9; whole - 28]);
            client.send(&bytes[..len]);
            drop(client);
        }
    }
    served.settled(0);
    assert_eq!(served.chosen().read(0, 300_000), vec![0; 300_000]);
}

#[test]
fn clients_that_leave_at_any_point_leave_the_others_alone() {
    // The maximum number of connections is high, because the server can detect earlier disconnects
    // late.
    let served = Served::with(exports(), Options { workers: 3, connections: 1000 });
    for round in 0..200 {
        // A case that crashed qemu-nbd: the client chooses by EXPORT_NAME, and disconnects before
        // the answer.
        let mut client = served.greeted();
        client.send_option(EXPORT_NAME, b"disk");
        drop(client);
        // A case that crashed nbdkit: the client resets the connection with reads in flight.
        let mut client = served.chosen();
        for _ in 0..16 {
            client.send_header(READ, 0, 0, 256 << 10);
        }
        if round % 2 == 0 {
            let _ = set_socket_linger(&client.stream, Some(Duration::ZERO));
        }
        drop(client);
        drop(served.connect());
        drop(served.greeted());
    }
    is_served(&served);
    served.settled(0);
}

#[test]
fn a_client_that_takes_nothing_stops_only_itself() {
    let served = Served::new(exports());
    let mut stuck: Vec<_> = (0..8).map(|_| served.chosen()).collect();
    for client in &mut stuck {
        client.stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let request = header(READ, 0, 1, 0, 1 << 20);
        // Sends until the server receives no more requests.
        let mut sent = 0;
        while sent < 100_000 && client.stream.write_all(&request).is_ok() {
            sent += 1;
        }
        assert!(sent < 100_000, "requests without end are taken");
    }
    is_served(&served);
    drop(stuck);
    served.settled(0);
}

#[test]
fn unfinished_long_writes_hold_up_no_one_for_long() {
    let served = Served::new(exports());
    let mut holders: Vec<_> = (0..3).map(|_| served.chosen()).collect();
    for holder in &mut holders {
        holder.send_header(WRITE, 0, 0, 32 << 20);
        holder.send(&[1; 1000]);
    }
    is_served(&served);
    let mut client = served.chosen();
    // While this client waits for memory, the clients that hold the memory have only a short time
    // limit. With the usual time limit, this client would wait three times as long.
    let sent = || client.write(0, 0, &contents(1, 32 << 20));
    assert_eq!(within(Duration::from_secs(150), sent), 0);
    served.logged("timeout while receiving a request");
    drop(holders);
    served.settled(1);
    assert!(client.read(0, 1 << 20) == contents(1, 32 << 20)[..1 << 20]);
}

#[test]
fn silent_clients_are_sent_away() {
    let served = Served::new(exports());
    let begun = Instant::now();
    let mut silent = [served.connect(), served.greeted()];
    // The client sends a byte from time to time, but never chooses an export.
    let mut slow = served.greeted();
    let trickle = thread::spawn(move || {
        until_with(Duration::from_millis(500), "it is sent away", || {
            slow.stream.write_all(&IHAVEOPT.to_be_bytes()[..1]).is_err()
        });
    });
    is_served(&served);
    for client in &mut silent {
        let mut rest = Vec::new();
        client.stream.read_to_end(&mut rest).unwrap();
    }
    assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
    trickle.join().unwrap();
}

#[test]
fn so_many_are_served_and_more_refused() {
    let served = Served::with(exports(), Options { workers: 1, connections: 5 });
    let clients: Vec<_> = (0..5).map(|_| served.chosen()).collect();
    // The last client might not be counted yet when it receives its reply.
    served.settled(5);
    assert!(served.connect().is_closed());
    served.logged("all --connections are in use");
    drop(clients);
    served.settled(0);
    is_served(&served);
}

#[test]
fn a_thousand_connections_are_withstood() {
    let served = Served::new(exports());
    let mut established = served.chosen();
    let mut silent = Vec::new();
    for nth in 0..1000 {
        silent.push(served.connect());
        if nth % 100 == 0 {
            assert_eq!(established.write(0, 0, &[nth as u8; 4096]), 0);
        }
    }
    is_served(&served);
    served.logged("to let another one in");
    drop(silent);
    is_served(&served);
    assert_eq!(established.read(0, 9), [132; 9]);
}

/// Slow clients send a byte from time to time. The newest client is admitted. If the maximum is
/// reached, the oldest client is disconnected.
#[test]
fn slow_handshakes_keep_nobody_out() {
    for count in [HALF_OPEN_MAX - 1, HALF_OPEN_MAX, HALF_OPEN_MAX + 1] {
        let served = Served::new(exports());
        let mut slow: Vec<_> = (0..count).map(|_| served.greeted()).collect();
        for client in &mut slow {
            // The first client may be disconnected already.
            let _ = client.stream.write_all(&IHAVEOPT.to_be_bytes()[..1]);
        }
        is_served(&served);
        let gone = (count + 1).saturating_sub(HALF_OPEN_MAX);
        assert!(slow[..gone].iter_mut().all(Client::is_closed), "{count}");
        // The remaining clients continue their handshakes.
        for client in &mut slow[gone..] {
            client.send(&IHAVEOPT.to_be_bytes()[1..]);
            client.send(&[STRUCTURED_REPLY, 0].map(u32::to_be_bytes).concat());
            assert_eq!(client.option_reply(STRUCTURED_REPLY).0, ACK);
        }
        assert!(within(ENDS_WITHIN, || served.server.stop(patience())));
    }
}

#[test]
fn the_server_ends_in_time_whatever_clients_do() {
    let served = Served::new(exports());
    let mut clients = vec![served.connect(), served.greeted(), served.chosen()];
    let mut amid = served.chosen();
    amid.send_header(WRITE, 0, 0, 20 << 20);
    amid.send(&[1; 5000]);
    clients.push(amid);
    let mut stuck = served.chosen();
    stuck.stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let request = header(READ, 0, 1, 0, 1 << 20);
    while stuck.stream.write_all(&request).is_ok() {}
    clients.push(stuck);
    assert!(within(ENDS_WITHIN, || served.server.stop(patience())));
    assert!(!served.path.exists());
}

/// Faults of other clients are logged while a client floods the server with connections.
#[test]
fn clients_that_make_room_take_one_line_of_the_log() {
    let served = Served::new(exports());
    let silent: Vec<_> = (0..HALF_OPEN_MAX + 60).map(|_| served.connect()).collect();
    served.logged("to let another one in");
    let mut client = served.greeted();
    client.send(&[b'x'; 16]);
    assert!(client.is_closed());
    served.logged("an option without the option magic");
    drop(silent);
    let lines = served.lines();
    let displaced = lines.iter().filter(|line| line.contains("to let another one in")).count();
    // On a slow machine, the connections can take more than one period of the log.
    assert!(
        displaced <= 1 + lines.iter().filter(|line| line.contains("left out")).count(),
        "{lines:?}"
    );
}
