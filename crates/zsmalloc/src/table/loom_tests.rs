//! Models of the table. A span has 2 leaves of 8 entries, and a packed node has 2 entries.
#![allow(clippy::unwrap_used)]

use super::helpers::{clear, get, set, unlock, unlock_object};
use super::*;
use crate::entry::{Location, Value};
use crate::loom_tests::{model_of, slow};
use loom::thread;

type Actor = fn(&Table);

fn table() -> Table {
    let arena = MetadataArena::new(page::Config::default()).unwrap();
    Table::new(&arena, Columns::default()).unwrap()
}

/// Adds one to an entry's payload. If threads found different copies of the entry, an increment
/// would be lost.
fn add(table: &Table, index: u32) {
    let entry = table.lock(index).unwrap();
    let payload = entry.value().decode().unwrap_err();
    unlock(entry, payload + 1);
}

fn rebalance(table: &Table) {
    {
        let mut making = table.making.lock();
        let room = making.room;
        making.pass.owe(room);
    }
    table.rebalance(&mut || true);
}

/// Creates an inner node with a dense node, in which entries 0 and 1 hold 1 and 2. All other
/// entries are empty. A pass converts the leaf, and then the span.
fn sparse(table: &Table) {
    (0..3).for_each(|index| set(table, index, index as u64 + 1));
    rebalance(table);
    clear(table, 2);
}

/// Creates a packed node before an inner node. Entries 0 and 9 in the packed node hold 1 and 2, and
/// entry 2 in the inner node holds 3. Three entries are too many for a packed node. So a pass moves
/// entries 0 and 9 into the inner node, which has no places for them yet.
fn hiding(table: &Table) {
    set(table, 0, 1);
    let pin = table.lock_shared(0, |_| true).unwrap();
    [(9, 2), (2, 3)].into_iter().for_each(|(index, payload)| set(table, index, payload));
    drop(pin);
}

/// Creates nodes as `hiding` does, but with entries 0 and 1 in the packed node. The dense node
/// below the inner node has hidden places for these entries.
fn hiding_dense(table: &Table) {
    set(table, 0, 1);
    let _pin = table.lock_shared(0, |_| true).unwrap();
    (1..3).for_each(|index| set(table, index, index as u64 + 1));
}

/// Creates an inner node with a dense node in which all entries are empty.
fn empty(table: &Table) {
    (0..3).for_each(|index| set(table, index, 1));
    (0..3).for_each(|index| clear(table, index));
}

fn model<const N: usize>(preemptions: usize, before: Actor, actors: [Actor; N], after: Actor) {
    model_of(preemptions, table, before, actors, |_| (), after);
}

/// Asserts that after a pass the table holds the entries in `expected`, and no others.
fn ends(table: &Table, expected: &[(u32, u64)]) {
    table.check();
    rebalance(table);
    table.check();
    for index in 0..SPAN as u32 {
        let payload = expected.iter().find(|(other, _)| *other == index);
        assert_eq!(get(table, index), payload.map_or(0, |(_, payload)| *payload), "entry {index}");
    }
}

#[test]
fn loom_table_reader_against_conversion() {
    model(
        slow(3),
        sparse,
        [rebalance, |table| assert_eq!((get(table, 1), get(table, 0)), (2, 1))],
        |table| ends(table, &[(0, 1), (1, 2)]),
    );
}

#[test]
fn loom_table_writer_against_conversion() {
    model(
        slow(3),
        sparse,
        [rebalance, |table| {
            add(table, 1);
            assert_eq!(get(table, 1), 3);
            clear(table, 0);
        }],
        |table| ends(table, &[(1, 3)]),
    );
}

#[test]
fn loom_table_made_against_conversion() {
    model(
        slow(3),
        sparse,
        [rebalance, |table| {
            set(table, 7, 8);
            assert_eq!((get(table, 7), get(table, 0)), (8, 1));
        }],
        |table| ends(table, &[(0, 1), (1, 2), (7, 8)]),
    );
}

/// The thread with the pin creates another entry in the node of the pinned entry. The pinned entry
/// is not moved.
#[test]
fn loom_table_conversion_against_pin() {
    model(
        slow(3),
        sparse,
        [rebalance, |table| {
            let pin = table.lock_shared(0, |_| true).unwrap();
            add(table, 2);
            thread::yield_now();
            assert_eq!(pin.value().decode(), Err(1));
        }],
        |table| ends(table, &[(0, 1), (1, 2), (2, 1)]),
    );
}

/// Both threads can find frozen entries, and then give up the conversion.
#[test]
fn loom_table_two_against_conversion() {
    model(
        1,
        sparse,
        [rebalance, |table| assert!(matches!(get(table, 0), 1 | 2)), |table| add(table, 0)],
        |table| ends(table, &[(0, 2), (1, 2)]),
    );
}

/// The thread that gives up the first conversion is delayed before it thaws the entry, and the
/// second conversion begins during this delay.
#[test]
fn loom_table_two_conversions_in_turn() {
    let twice: Actor = |table| {
        rebalance(table);
        rebalance(table);
    };
    model(slow(4), sparse, [twice, |table| add(table, 1)], |table| ends(table, &[(0, 1), (1, 3)]));
}

/// A leaf is removed while another thread looks up an entry of the leaf, and then creates the
/// entry.
#[test]
fn loom_table_removal_against_making() {
    model(
        slow(3),
        empty,
        [rebalance, |table| {
            assert_eq!(get(table, 2), 0);
            add(table, 1);
        }],
        |table| ends(table, &[(1, 1)]),
    );
}

/// One thread fills the packed node and appends an inner node, while the other thread looks for the
/// last entry.
#[test]
fn loom_table_two_makers() {
    model(
        4,
        |table| set(table, 0, 1),
        [
            |table| add(table, 1),
            |table| {
                add(table, 1);
                add(table, 2);
            },
        ],
        |table| ends(table, &[(0, 1), (1, 2), (2, 1)]),
    );
}

/// Entries move into the inner node while a thread reads them. The thread also reads an entry that
/// was already in the inner node.
#[test]
fn loom_table_reader_against_absorption() {
    let read: Actor = |table| assert_eq!((get(table, 9), get(table, 2)), (2, 3));
    model(slow(3), hiding, [rebalance, read], |table| ends(table, &[(0, 1), (2, 3), (9, 2)]));
}

/// A move that was given up leaves no copies of entries. The next pass completes the move.
#[test]
fn loom_table_writer_against_absorption() {
    model(
        slow(3),
        hiding_dense,
        [rebalance, |table| {
            add(table, 1);
            assert_eq!(get(table, 1), 3);
            clear(table, 0);
        }],
        |table| ends(table, &[(1, 3), (2, 3)]),
    );
}

/// Another thread creates entries in the inner node while entries of the packed node move there.
#[test]
fn loom_table_made_against_absorption() {
    model(
        slow(2),
        hiding,
        [rebalance, |table| {
            add(table, 2);
            set(table, 3, 5);
            assert_eq!((get(table, 3), get(table, 0)), (5, 1));
        }],
        |table| ends(table, &[(0, 1), (2, 4), (3, 5), (9, 2)]),
    );
}

/// A pinned entry of a packed node is not moved while the pinning thread creates another entry.
/// After the pin is dropped, the entry is changed.
#[test]
fn loom_table_absorption_against_pin() {
    model(
        slow(3),
        hiding_dense,
        [rebalance, |table| {
            let pin = table.lock_shared(0, |_| true).unwrap();
            add(table, 10);
            thread::yield_now();
            assert_eq!(pin.value().decode(), Err(1));
            drop(pin);
            add(table, 0);
        }],
        |table| ends(table, &[(0, 2), (1, 2), (2, 3), (10, 1)]),
    );
}

/// Both threads can find frozen entries, and then give up the move.
#[test]
fn loom_table_two_against_absorption() {
    model(
        1,
        hiding_dense,
        [rebalance, |table| assert!(matches!(get(table, 0), 1 | 2)), |table| add(table, 0)],
        |table| ends(table, &[(0, 2), (1, 2), (2, 3)]),
    );
}

/// While a thread changes an entry, the entries of a packed node move into an inner node. After the
/// move, the leaf and the span are packed.
#[test]
fn loom_table_span_in_turn() {
    let fall: Actor = |table| {
        rebalance(table);
        clear(table, 2);
        rebalance(table);
    };
    model(slow(2), hiding_dense, [fall, |table| add(table, 1)], |table| {
        ends(table, &[(0, 1), (1, 3)])
    });
}

/// If two passes run concurrently, one of them does nothing.
#[test]
fn loom_table_two_passes() {
    model(2, sparse, [rebalance, rebalance], |table| ends(table, &[(0, 1), (1, 2)]));
}

/// Only one thread can claim an entry, even if the entry is removed at the same time.
#[test]
fn loom_table_two_claims_against_removal() {
    let claim: Actor = |table| {
        if let Some(entry) = table.claim(0).unwrap() {
            assert_eq!(entry.value(), Value::EMPTY);
            unlock(entry, 1);
        }
    };
    let before: Actor = |table| {
        set(table, 0, 1);
        clear(table, 0);
    };
    model(slow(2), before, [rebalance, claim, claim], |table| {
        table.check();
        assert!(get(table, 0) <= 1);
    });
}

/// No thread locks the entries. So the flags are set, whichever node an entry is in.
#[test]
fn loom_table_remark_against_conversion() {
    const OBJECT: Location = Location { offset: 8, len: 100, flags: 0 };
    let store: Actor = |table| {
        sparse(table);
        (0..2).for_each(|index| {
            unlock_object(table.lock(index).unwrap(), OBJECT.offset, OBJECT.len);
        });
    };
    let mark: Actor =
        |table| assert!((0..2).all(|index| table.set_flags_if_unlocked(index, |_, _, _| 0b0100)));
    model(slow(3), store, [rebalance, mark], |table| {
        table.check();
        for index in 0..2 {
            let entry = table.lock_existing(index, |_| true).unwrap();
            assert_eq!(entry.value(), Value::object(OBJECT.with_flags(0b0100)));
        }
    });
}
