//! Tests the cases of the NBD protocol according to the protocol's document.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serve::nbd::Exports;
use std::collections::HashSet;
use support::*;

#[test]
fn an_export_is_listed_told_of_and_chosen() {
    let served = Served::new(exports());
    let mut client = served.greeted();
    let listed = client.option(LIST, &[]);
    let names: Vec<_> = listed.iter().map(|(kind, data)| (*kind, data.get(4..8))).collect();
    assert_eq!(names, [(2, Some(&b"disk"[..])), (2, Some(b"fixe")), (ACK, None)]);
    let told = client.option(INFO, &info("disk", &[1, 2, 77]));
    let size = 64 * MIB;
    let flags = HAS_FLAGS
        | SEND_FLUSH
        | SEND_FUA
        | SEND_TRIM
        | SEND_WRITE_ZEROES
        | CAN_MULTI_CONN
        | SEND_CACHE
        | SEND_FAST_ZERO;
    let export = [&[0, 0], &size.to_be_bytes()[..], &flags.to_be_bytes()].concat();
    let sizes =
        [&[0, 3], &1_u32.to_be_bytes()[..], &4096_u32.to_be_bytes(), &(32_u32 << 20).to_be_bytes()];
    let expected = [
        (3, export),
        (3, sizes.concat()),
        (3, b"\0\x01disk".to_vec()),
        (3, b"\0\x02disk disk".to_vec()),
        (ACK, vec![]),
    ];
    assert_eq!(told, expected);
    // With structured replies, a client can request that the data of a read arrive in one chunk. A
    // read-only export refuses writes.
    assert_eq!(client.option_kind(STRUCTURED_REPLY, &[]), ACK);
    let told = client.option(INFO, &info("fixed", &[]));
    assert_eq!(told[0].1[10..], (1_u16 | 2 | 4 | 8 | 128 | 256 | 1024).to_be_bytes());
    let told = client.option(GO, &info("", &[]));
    assert_eq!(told.last().unwrap().0, ACK);
    client.structured = true;
    assert_eq!(client.read(0, 10), [0; 10]);
}

#[test]
fn the_old_way_to_choose_works() {
    for (flags, zeroes) in [(1, 124), (3, 0), (0, 124)] {
        let served = Served::new(exports());
        let mut client = served.connect();
        client.greet(flags);
        client.send_option(EXPORT_NAME, b"fixed");
        assert_eq!(client.receive(8), (64 * MIB).to_be_bytes());
        assert_eq!(client.receive(2)[1] & 2, 2);
        assert_eq!(client.receive(zeroes), vec![0; zeroes]);
        assert_eq!(client.read(5, 5), [0; 5]);
    }
}

#[test]
fn options_that_can_t_be_are_refused_and_haggling_goes_on() {
    let served = Served::new(exports());
    let mut client = served.greeted();
    let long = "x".repeat(5000);
    let mut cases = vec![
        (99, b"whatever".to_vec(), ERR_UNSUP),
        (4, vec![], ERR_UNSUP),
        (11, vec![], ERR_UNSUP),
        (STARTTLS, vec![], ERR_POLICY),
        (STARTTLS, vec![1], ERR_INVALID),
        (LIST, vec![1], ERR_INVALID),
        (STRUCTURED_REPLY, vec![1], ERR_INVALID),
        (SET_META_CONTEXT, contexts("disk", &[BASE_ALLOCATION]), ERR_INVALID),
        (LIST_META_CONTEXT, contexts("disk", &[]), ERR_INVALID),
    ];
    for option in [INFO, GO] {
        cases.extend([
            (option, info("no", &[]), ERR_UNKNOWN),
            (option, info(&long, &[]), ERR_TOO_BIG),
            (option, vec![], ERR_INVALID),
            (option, vec![0; 5], ERR_INVALID),
            (option, u32::MAX.to_be_bytes().to_vec(), ERR_INVALID),
            (option, [info("disk", &[]), vec![0]].concat(), ERR_INVALID),
            (option, [info("disk", &[])[..8].to_vec(), vec![0, 9]].concat(), ERR_INVALID),
        ]);
    }
    for (option, data, error) in cases {
        assert_eq!(client.option_kind(option, &data), error, "{option} {data:?}");
    }
    assert_eq!(client.option_kind(STRUCTURED_REPLY, &[]), ACK);
    for option in [SET_META_CONTEXT, LIST_META_CONTEXT] {
        for (data, error) in [
            (contexts("no", &[BASE_ALLOCATION]), ERR_UNKNOWN),
            (contexts(&long, &[BASE_ALLOCATION]), ERR_TOO_BIG),
            (contexts("disk", &[&long]), ERR_TOO_BIG),
            (vec![0; 4], ERR_INVALID),
            ([contexts("disk", &["a"]), vec![0]].concat(), ERR_INVALID),
            ([contexts("disk", &[])[..8].to_vec(), vec![255; 4]].concat(), ERR_INVALID),
        ] {
            assert_eq!(client.option_kind(option, &data), error, "{option} {data:?}");
        }
    }
    client.choose("disk", false);
}

#[test]
fn contexts_are_listed_and_set() {
    let served = Served::new(exports());
    let mut client = served.greeted();
    assert_eq!(client.option_kind(STRUCTURED_REPLY, &[]), ACK);
    let named = |id: u32| (4, [&id.to_be_bytes()[..], b"base:allocation"].concat());
    let ack = (ACK, Vec::new());
    let nothing = std::slice::from_ref(&ack);
    for queries in [&[][..], &["base:"], &["x:", BASE_ALLOCATION], &["base:", BASE_ALLOCATION]] {
        let listed = client.option(LIST_META_CONTEXT, &contexts("disk", queries));
        assert_eq!(listed, [named(0), ack.clone()], "{queries:?}");
    }
    assert_eq!(client.option(LIST_META_CONTEXT, &contexts("disk", &["qemu:"])), nothing);
    for queries in [&[][..], &["base:"], &["base:alloc"], &["base:allocation2"]] {
        assert_eq!(client.option(SET_META_CONTEXT, &contexts("disk", queries)), nothing);
    }
    let set = client.option(SET_META_CONTEXT, &contexts("", &["x:y", BASE_ALLOCATION]));
    assert_eq!(set, [named(1), ack.clone()]);
    // The context was set for another export.
    client.option(GO, &info("disk", &[]));
    assert_eq!(client.error_of(BLOCK_STATUS, 0, 0, 4096), EINVAL);
    // Even a failed SET_META_CONTEXT clears an earlier choice.
    for data in [contexts("disk", &[]), contexts("no", &[BASE_ALLOCATION])] {
        let mut client = served.greeted();
        client.option(STRUCTURED_REPLY, &[]);
        client.option(SET_META_CONTEXT, &contexts("disk", &[BASE_ALLOCATION]));
        client.option(SET_META_CONTEXT, &data);
        client.option(GO, &info("disk", &[]));
        assert_eq!(client.error_of(BLOCK_STATUS, 0, 0, 4096), EINVAL);
    }
}

#[test]
fn abort_is_acknowledged() {
    let served = Served::new(exports());
    let mut client = served.greeted();
    assert_eq!(client.option_kind(ABORT, &[]), ACK);
    assert!(client.is_closed());
}

#[test]
fn data_come_back() {
    for structured in [false, true] {
        let served = Served::new(exports());
        let mut client = served.greeted();
        client.choose("disk", structured);
        // Reads that are short, unaligned, longer than one part, or of the maximum length.
        for (nth, (offset, len)) in [
            (0, 1),
            (4095, 2),
            (5000, 70_000),
            (123, 256 << 10),
            (8 * MIB - 77, 600_001),
            (16 * MIB + 5, 32 << 20),
        ]
        .into_iter()
        .enumerate()
        {
            let bytes = contents(nth as u64, len);
            assert_eq!(client.write(FUA, offset, &bytes), 0);
            assert!(client.read(offset, len as u32) == bytes, "{len} bytes at {offset}");
        }
        assert_eq!(client.error_of(FLUSH, FUA, 0, 0), 0);
        assert_eq!(client.error_of(CACHE, FUA, 0, 64 << 20), 0);
        assert_eq!(client.read(64 * MIB - 1, 1), [0]);
    }
}

#[test]
fn a_read_comes_in_one_piece_if_it_must() {
    let served = Served::new(exports());
    let mut client = served.chosen();
    let reply = client.request(READ, DF | FUA, 77, 256 << 10);
    assert_eq!((reply.error, reply.parts.len()), (0, 1));
    assert_eq!(client.error_of(READ, DF, 0, (256 << 10) + 1), EOVERFLOW);
    assert!(client.request(READ, 0, 0, 1 << 20).parts.len() > 1);
    let mut simple = served.greeted();
    simple.choose("disk", false);
    assert_eq!(simple.error_of(READ, DF, 0, 4096), EINVAL);
}

#[test]
fn zeros_and_trims_free_blocks() {
    let served = Served::new(exports());
    let mut client = served.chosen();
    assert_eq!(client.write(0, 0, &contents(1, 1 << 20)), 0);
    let hole = 3;
    assert_eq!(client.error_of(TRIM, FUA, 4000, 8192), 0);
    let status = |client: &mut Client| client.request(BLOCK_STATUS, 0, 0, 64 << 10).extents;
    assert_eq!(status(&mut client), [(4096, 0), (4096, hole), (57344, 0)]);
    assert_eq!(client.error_of(WRITE_ZEROES, FAST_ZERO | FUA, 16384, 8192), 0);
    assert_eq!(status(&mut client), [(4096, 0), (4096, hole), (8192, 0), (8192, hole), (40960, 0)]);
    assert_eq!(client.error_of(WRITE_ZEROES, NO_HOLE | FAST_ZERO, 16384, 8192), 0);
    assert_eq!(status(&mut client), [(4096, 0), (4096, hole), (57344, 0)]);
    // Exactly the requested ranges become zeros, even if a range covers only a part of a block.
    assert_eq!(client.error_of(TRIM, 0, 24600, 1), 0);
    assert_eq!(client.read(0, 1 << 20), {
        let mut expected = contents(1, 1 << 20);
        for zeros in [4000..12192, 16384..24576, 24600..24601] {
            expected[zeros].fill(0);
        }
        expected
    });
    // A requested range can be longer than the data of a reply.
    assert_eq!(client.error_of(WRITE_ZEROES, NO_HOLE, 0, 64 << 20), 0);
    assert_eq!(client.error_of(TRIM, 0, 0, 64 << 20), 0);
    assert_eq!(client.request(BLOCK_STATUS, 0, 0, 64 << 20).extents, [(64 << 20, hole)]);
}

#[test]
fn block_status_is_exact() {
    let served = Served::new(exports());
    let mut client = served.chosen();
    for block in [3, 4, 700] {
        assert_eq!(client.write(0, block * 4096, &[7; 4096]), 0);
    }
    let extents = |client: &mut Client, flags, offset, len| {
        client.request(BLOCK_STATUS, flags, offset, len).extents
    };
    let (data, hole) = (0, 3);
    assert_eq!(extents(&mut client, REQ_ONE, 0, 1 << 20), [(3 * 4096, hole)]);
    assert_eq!(extents(&mut client, REQ_ONE, 3 * 4096, 100), [(100, data)]);
    assert_eq!(extents(&mut client, REQ_ONE, 3 * 4096 + 1, 1 << 20), [(8191, data)]);
    assert_eq!(
        extents(&mut client, 0, 4096, 800 * 4096),
        [(2 * 4096, hole), (2 * 4096, data), (695 * 4096, hole), (4096, data), (100 * 4096, hole)]
    );
    assert_eq!(client.error_of(BLOCK_STATUS, 0, 0, 0), EINVAL);
    assert_eq!(client.error_of(TRIM, 0, 0, 1 << 20), 0);
    // Every other block is stored. The reply contains the maximum number of extents.
    for block in 0..2000 {
        assert_eq!(client.write(0, block * 8192, &[7; 4096]), 0);
    }
    let found = extents(&mut client, 0, 0, 64 << 20);
    assert_eq!(found.len(), 1024);
    assert!(found.iter().all(|(len, _)| *len == 4096));
}

#[test]
fn requests_that_can_t_be_get_their_error_and_change_nothing() {
    let served = Served::new(exports());
    let mut client = served.chosen();
    let size = 64 * MIB;
    for kind in [READ, TRIM, CACHE, BLOCK_STATUS] {
        for (offset, len) in
            [(size, 1), (size - 1, 2), (u64::MAX, 1), (u64::MAX - 1, u32::MAX), (0, u32::MAX)]
        {
            assert_eq!(client.error_of(kind, 0, offset, len), EINVAL, "{kind} {offset} {len}");
        }
    }
    for (offset, len) in [(size, 1), (size - 1, 2), (u64::MAX, 1), (0, u32::MAX)] {
        assert_eq!(client.error_of(WRITE_ZEROES, 0, offset, len), ENOSPC);
    }
    for (offset, len) in [(size, 1), (size - 1, 2), (u64::MAX, 4096), (size - 5, 1 << 20)] {
        assert_eq!(client.write(0, offset, &vec![1; len]), ENOSPC);
    }
    assert_eq!(client.read(size - 1, 1), [0]);
    assert_eq!(client.error_of(READ, 0, 0, (32 << 20) + 1), EINVAL);
    // Flags that are unknown, or that the command does not support, are refused.
    for flags in [1 << 5, 1 << 15, NO_HOLE, REQ_ONE, FAST_ZERO] {
        assert_eq!(client.error_of(READ, flags, 0, 512), EINVAL);
        assert_eq!(client.write(flags | DF, 0, &[1; 512]), EINVAL);
    }
    assert_eq!(client.error_of(FLUSH, 0, 0, 1), EINVAL);
    assert_eq!(client.error_of(FLUSH, 0, 1, 0), EINVAL);
    for kind in [8, 99, u16::MAX] {
        assert_eq!(client.error_of(kind, 0, 0, 512), EINVAL);
    }
    // Requests of length 0 are tested.
    for kind in [READ, TRIM, CACHE, WRITE_ZEROES] {
        assert_eq!(client.error_of(kind, 0, 5, 0), 0);
    }
    assert_eq!(client.write(0, 0, &[]), 0);
    assert_eq!(client.read(0, 4096), [0; 4096]);
    assert_eq!(client.request(BLOCK_STATUS, 0, 0, 64 << 20).extents, [(64 << 20, 3)]);
}

#[test]
fn a_read_only_export_is_not_changed() {
    let served = Served::new(exports());
    let mut client = served.greeted();
    client.choose("fixed", true);
    assert_eq!(client.write(0, 0, &[1; 5000]), EPERM);
    assert_eq!(client.error_of(TRIM, 0, 0, 4096), EPERM);
    assert_eq!(client.error_of(WRITE_ZEROES, 0, 0, 4096), EPERM);
    assert_eq!(client.error_of(FLUSH, 0, 0, 0), 0);
    assert_eq!(client.read(0, 5000), [0; 5000]);
}

#[test]
fn what_one_connection_wrote_all_see() {
    let served = Served::new(exports());
    let (mut one, mut other) = (served.chosen(), served.chosen());
    assert_eq!(one.write(0, 999, b"some bytes"), 0);
    assert_eq!(other.read(999, 10), b"some bytes");
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let served = Served::new(exports());
    let mut client = served.chosen();
    let mut bytes = Vec::new();
    for nth in 1..=2000_u64 {
        let data = contents(nth, 512);
        bytes.extend(header(WRITE, 0, 10_000 + nth, nth * 512, 512));
        bytes.extend(data);
    }
    let mut stream = client.stream.try_clone().unwrap();
    let sender =
        std::thread::spawn(move || std::io::Write::write_all(&mut stream, &bytes).unwrap());
    let cookies: HashSet<u64> = (0..2000)
        .map(|_| {
            let reply = client.reply();
            assert_eq!(reply.error, 0);
            reply.cookie
        })
        .collect();
    sender.join().unwrap();
    assert_eq!(cookies.len(), 2000);
    for nth in 1..=2000_u64 {
        assert_eq!(client.read(nth * 512, 512), contents(nth, 512));
    }
}

#[test]
fn what_was_asked_for_before_disc_is_done() {
    let served = Served::new(exports());
    let mut client = served.chosen();
    let mut bytes = Vec::new();
    for nth in 1..=50_u64 {
        bytes.extend(header(WRITE, 0, nth, nth * 4096, 4096));
        bytes.extend(contents(nth, 4096));
    }
    bytes.extend(header(DISC, 0, 77, 0, 0));
    client.send(&bytes);
    for _ in 0..50 {
        assert_eq!(client.reply().error, 0);
    }
    assert!(client.is_closed());
    served.settled(0);
    let mut other = served.chosen();
    assert_eq!(other.read(50 * 4096, 4096), contents(50, 4096));
    assert!(served.log.lock().unwrap().is_empty());
}

#[test]
fn bytes_may_come_one_by_one() {
    let exports: Exports = exports();
    let mut script = Vec::new();
    script.extend(3_u32.to_be_bytes());
    script.extend(option(STRUCTURED_REPLY, &[]));
    script.extend(option(GO, &info("disk", &[])));
    for nth in 1..=20_u64 {
        script.extend(header(WRITE, 0, nth, nth * 5000, 5000));
        script.extend(contents(nth, 5000));
        script.extend(header(READ, 0, 100 + nth, nth * 5000, 5000));
        script.extend(header(77, 0, 200 + nth, 0, 0));
    }
    script.extend(header(DISC, 0, 0, 0, 0));
    let whole = serve::nbd::converse(&exports, &script, usize::MAX);
    for step in [1, 2, 3, 7, 28, 100, 4096, 5028] {
        assert!(serve::nbd::converse(&exports, &script, step) == whole, "by {step} bytes");
    }
    assert!(whole.len() > 20 * 5000);
}
