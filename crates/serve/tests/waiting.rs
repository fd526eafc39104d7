//! Tests a backing store that is slow or stuck. Only requests for data in the store wait.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serve::nbd::{Exports, Mode, Options};
use std::sync::Arc;
use std::time::Duration;
use support::*;
use testkit::faulty::Faulty;
use zram::{Config, Device, Selection};

const PAGE: u64 = 4096;
/// The number of pages that are written back.
const AWAY: u64 = 16;

/// Creates a disk whose first pages are in a backing store that can get stuck.
fn away() -> (Arc<Faulty>, Arc<Device>, Served) {
    let store = Arc::new(Faulty::new(1 << 20));
    let config = Config { backing: Some(store.clone()), ..Config::new(64 * MIB).unwrap() };
    let device = device(config);
    for page in 0..2 * AWAY {
        device.write(page * PAGE, &contents(page, PAGE as usize)).unwrap();
    }
    let first = Selection { slots: vec![0..=AWAY - 1], ..Selection::default() };
    assert_eq!(device.write_back(&first).unwrap().slots, AWAY);
    let export = export("disk", Arc::new(device.clone()), Mode::ReadWrite);
    let served = Served::with(Exports::new([export]), Options { workers: 2, connections: 9 });
    (store, device, served)
}

#[test]
fn who_waits_for_the_store_holds_up_no_other_request() {
    for (kind, payload) in [(READ, 0), (WRITE, 100), (WRITE_ZEROES, 0)] {
        let (store, device, served) = away();
        let mut client = served.chosen();
        store.stick(true);
        // All requests arrive at once. The waiting request has other requests before and after it.
        let mut burst = Vec::new();
        for cookie in 0..16 {
            match cookie {
                5 => {
                    burst.extend(header(kind, 0, cookie, 8, 100));
                    burst.extend(vec![1; payload]);
                }
                _ => burst.extend(header(READ, 0, cookie, (AWAY + cookie) * PAGE, 4096)),
            }
        }
        client.send(&burst);
        for _ in 0..15 {
            let reply = client.reply();
            assert_eq!(reply.parts[0].1, contents(AWAY + reply.cookie, 4096));
        }
        // Later requests of other kinds do not wait either.
        assert_eq!(client.error_of(TRIM, 0, 2 * PAGE, 4096), 0);
        assert_eq!(client.write(0, 2 * AWAY * PAGE, &[3; 512]), 0);
        store.stick(false);
        let reply = client.reply();
        assert_eq!((reply.cookie, reply.error), (5, 0));
        drop(served);
        device.check();
    }
}

#[test]
fn a_stuck_store_does_not_keep_the_server_from_its_end() {
    let (store, device, served) = away();
    let mut clients: Vec<_> = (0..4).map(|_| served.chosen()).collect();
    store.stick(true);
    for client in &mut clients {
        for page in 0..AWAY {
            client.send_header(READ, 0, page * PAGE, 4096);
        }
    }
    store.wait_until_stuck(1);
    // The store stays stuck until `stop` has returned.
    assert!(!served.server.stop(Duration::from_secs(1)), "nobody waits for the store");
    assert!(clients.iter_mut().all(Client::is_closed));
    store.stick(false);
    served.settled(0);
    device.check();
}
