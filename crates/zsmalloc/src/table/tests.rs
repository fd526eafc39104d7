//! Tests of the table: comparisons with a model, concurrent threads, and memory use.
#![allow(clippy::unwrap_used)]

use super::helpers::{clear, get, set, unlock};
use super::layout::NodeKind;
use super::node::Node;
use super::*;
use fastrand::Rng;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use testkit::seed;

fn table() -> (Arc<MetadataArena>, Table) {
    let arena = MetadataArena::new(page::Config::default()).unwrap();
    let table = Table::new(&arena, Columns::default()).unwrap();
    (arena, table)
}

fn rebalance(table: &Table) -> usize {
    table.rebalance(&mut || true)
}

/// Makes a pass even if few entries have changed.
fn rebalance_all(table: &Table) -> usize {
    {
        let mut making = table.making.lock();
        let room = making.room;
        making.pass.owe(room);
    }
    rebalance(table)
}

#[test]
fn words_are_as_in_the_model() {
    let mut rng = Rng::with_seed(seed(7));
    let (_arena, table) = table();
    let mut model: HashMap<u32, u64> = HashMap::new();
    for round in 0..60 {
        // A few or many leaves are filled in order, at random or in clusters, and partly emptied.
        let span = LEAF as u32 * [1, 3, 40][round % 3];
        let count = rng.u32(0..[span, 200][round / 3 % 2]).min(span);
        let mut cluster = 0;
        for nth in 0..count {
            if nth % 24 == 0 {
                cluster = rng.u32(..span);
            }
            let index = [nth, rng.u32(..span), (cluster + nth % 24) % span][round / 2 % 3];
            let payload = rng.u64(1..1 << 50);
            set(&table, index, payload);
            model.insert(index, payload);
        }
        for _ in 0..rng.u32(0..2 * span) {
            let index = rng.u32(..span);
            clear(&table, index);
            model.remove(&index);
        }
        if round % 5 == 4 {
            let start = rng.u32(..span);
            (start..span).for_each(|index| clear(&table, index));
            model.retain(|&index, _| index < start || index >= span);
        }
        if rng.bool() {
            rebalance(&table)
        } else {
            rebalance_all(&table)
        };
        table.check();
        for index in 0..LEAF as u32 * 41 {
            let expected = model.get(&index).copied().unwrap_or(0);
            assert_eq!(get(&table, index), expected, "entry {index} in round {round}");
        }
    }
    (0..LEAF as u32 * 41).for_each(|index| clear(&table, index));
    rebalance_all(&table);
    assert_eq!((table.node_bytes(), table.first_made(0)), (0, None));
    table.check();
}

fn span_kinds(table: &Table, span: u64) -> Vec<NodeKind> {
    let inside = table.enter();
    let node = inside.first(span);
    node.into_iter().flat_map(Node::nodes).map(Node::kind).collect()
}

/// Returns the kinds of the nodes of a leaf's chain, in a span with an inner node.
fn leaf_kinds(table: &Table, leaf: usize) -> Vec<NodeKind> {
    let inside = table.enter();
    let node = inside.first((leaf / LEAVES) as u64).and_then(Node::inner);
    let node = node.and_then(|inner| inner.below(leaf % LEAVES));
    node.into_iter().flat_map(Node::nodes).map(Node::kind).collect()
}

#[test]
fn a_stem_has_the_nodes_that_suit_it() {
    const ODD: u32 = 977; // entries far apart
    let (_arena, table) = table();
    let packed = NodeKind::packed;
    let chain = [4, 2, 4, 5, 7, 12, 24, 32];
    for (nth, capacity) in chain.into_iter().enumerate() {
        let first: usize = chain[..nth].iter().sum();
        (first..first + capacity).for_each(|entry| set(&table, entry as u32 * ODD % 65_536, 1));
        let kinds: Vec<_> = chain[..=nth].iter().map(|&capacity| packed(capacity)).collect();
        assert_eq!(span_kinds(&table, 0), kinds);
        table.check();
    }
    rebalance_all(&table);
    assert_eq!(span_kinds(&table, 0), [packed(90)]);
    (90..96).for_each(|entry| set(&table, entry * ODD % 65_536, 1));
    assert_eq!(span_kinds(&table, 0), [packed(96)]);
    // The entries of the packed nodes move into the inner node, but not while one of these entries
    // is locked. Later the entries move back into packed nodes.
    let pin = table.lock_shared(5 * ODD, |_| true).unwrap();
    set(&table, 96 * ODD % 65_536, 1);
    assert_eq!(span_kinds(&table, 0), [packed(96), NodeKind::INNER]);
    table.check();
    drop(pin);
    (97..101).for_each(|entry| set(&table, entry * ODD % 65_536, 1));
    assert_eq!(span_kinds(&table, 0), [NodeKind::INNER]);
    table.check();
    (0..101).for_each(|entry| assert_eq!(get(&table, entry * ODD % 65_536), 1));
    (80..101).for_each(|entry| clear(&table, entry * ODD % 65_536));
    assert!(rebalance_all(&table) > 0);
    assert_eq!(span_kinds(&table, 0), [packed(80)]);
    table.check();
    (0..80).for_each(|entry| clear(&table, entry * ODD % 65_536));
    rebalance_all(&table);
    assert_eq!((table.node_bytes(), table.first_made(0)), (0, None));
    table.check();
}

#[test]
fn a_leaf_has_the_nodes_that_suit_it() {
    let (_arena, table) = table();
    let (dense, packed) = (NodeKind::DENSE, NodeKind::packed);
    // The span gets an inner node, with entries in all leaves except the first.
    (0..127).for_each(|leaf| set(&table, (leaf + 1) * 512, 1));
    rebalance_all(&table);
    assert_eq!(span_kinds(&table, 0), [NodeKind::INNER]);
    assert!(leaf_kinds(&table, 0).is_empty());
    (0..90).for_each(|index| set(&table, index * 3, 1));
    assert_eq!(leaf_kinds(&table, 0), [4, 2, 4, 5, 7, 12, 24, 32].map(packed));
    (0..20).for_each(|index| clear(&table, index * 3));
    rebalance_all(&table);
    assert_eq!(leaf_kinds(&table, 0), [packed(70)]);
    (0..20).for_each(|index| set(&table, index * 3, 1));
    let pin = table.lock_shared(0, |_| true).unwrap();
    (90..101).for_each(|index| set(&table, index * 3, 1));
    assert_eq!(leaf_kinds(&table, 0), [packed(96), dense]);
    drop(pin);
    table.check();
    assert!(rebalance_all(&table) > 0);
    assert_eq!(leaf_kinds(&table, 0), [dense]);
    assert_eq!(rebalance_all(&table), 0);
    (0..512).for_each(|index| clear(&table, index));
    rebalance_all(&table);
    assert!(leaf_kinds(&table, 0).is_empty());
    table.check();
}

/// A table that was filled in order is dense. The nodes that were created before the order was
/// recognized are no longer used.
#[test]
fn a_table_filled_in_order_is_dense() {
    let (_arena, table) = table();
    let count = 3 * SPAN + 5;
    (0..count).for_each(|index| set(&table, 70_000 + index as u32, 1));
    let bytes = table.node_bytes();
    assert!(bytes < count * 8 + 4 * 1024 + 2 * 4096, "{bytes} bytes");
    assert_eq!(rebalance_all(&table), 0);
    table.check();
}

#[test]
fn a_pin_keeps_its_chain_and_nothing_else() {
    let (_arena, table) = table();
    let pinned = LEAF as u32 + 3;
    (0..LEAF as u32 * 4).for_each(|index| set(&table, index, 1 + index as u64));
    rebalance_all(&table);
    let pin = table.lock_shared(pinned, |_| true).unwrap();
    (0..LEAF as u32 * 4).filter(|&index| index != pinned).for_each(|index| clear(&table, index));
    assert_eq!(rebalance_all(&table), 3 * table.nodes.bytes(NodeKind::DENSE));
    table.check();
    // The thread that holds the pin creates entries near the pinned entry.
    set(&table, pinned + 1, 9);
    set(&table, 3, 9);
    assert_eq!(pin.value().decode(), Err(LEAF as u64 + 4));
    drop(pin);
    rebalance_all(&table);
    assert_eq!(table.node_bytes(), table.nodes.bytes(NodeKind::packed(3)));
    assert_eq!((get(&table, 3), get(&table, pinned)), (9, LEAF as u64 + 4));
    assert_eq!(get(&table, pinned + 1), 9);
    table.check();
    // A packed node with a pinned entry is not removed, and no entry of the packed nodes moves.
    let pin = table.lock_shared(3, |_| true).unwrap();
    (0..LEAF as u32 * 4).for_each(|index| set(&table, index * 20, 1));
    let before = span_kinds(&table, 0);
    assert_eq!(before.last(), Some(&NodeKind::INNER));
    rebalance_all(&table);
    assert_eq!(span_kinds(&table, 0), before);
    assert_eq!(pin.value().decode(), Err(9));
    drop(pin);
    rebalance_all(&table);
    assert_eq!(span_kinds(&table, 0), [NodeKind::INNER]);
    assert_eq!(get(&table, 3), 9);
    table.check();
}

#[test]
fn a_pass_can_be_stopped_and_goes_on_where_it_was() {
    let (_arena, table) = table();
    (0..LEAF as u32 * 9).for_each(|index| set(&table, index, 1));
    rebalance_all(&table);
    (0..LEAF as u32 * 9).for_each(|index| clear(&table, index));
    let dense = table.nodes.bytes(NodeKind::DENSE);
    let first_made = |leaf: usize| Some((leaf * LEAF) as u64);
    let some = || {
        let mut left = 3;
        table.rebalance(&mut || {
            left -= 1;
            left >= 0
        })
    };
    for nth in 1..=3 {
        assert_eq!(some(), 3 * dense);
        assert_eq!(table.first_made(0), first_made(3 * nth).filter(|_| nth < 3));
        table.check();
    }
    assert_eq!(some(), table.nodes.bytes(NodeKind::INNER));
    assert_eq!(rebalance(&table), 0);
}

/// `first_made` finds the first entry at or after any index, in every kind of node.
#[test]
fn the_first_word_made_is_found() {
    let (_arena, table) = table();
    let far = u32::MAX - 1;
    set(&table, far, 1);
    for index in [0, 1, far as u64 - SPAN as u64, far as u64] {
        assert_eq!(table.first_made(index), Some(far as u64));
    }
    assert_eq!(table.first_made(far as u64 + 1), None);
    set(&table, 70_000, 1);
    let pin = table.lock_shared(70_000, |_| true).unwrap();
    (1..91).for_each(|nth| set(&table, 70_000 + nth * 300, 1));
    assert!(span_kinds(&table, 1).len() > 2, "an inner node behind packed nodes");
    assert_eq!(table.first_made(5), Some(70_000));
    assert_eq!(table.first_made(70_001), Some(70_300));
    drop(pin);
    (0..200).for_each(|nth| set(&table, 70_000 + nth * 300, 1));
    assert_eq!(span_kinds(&table, 1), [NodeKind::INNER]);
    assert_eq!(table.first_made(70_001), Some(70_001), "the leaf has a node");
    assert_eq!(table.first_made(70_200), Some(70_200));
    assert_eq!(table.first_made(70_000 + 199 * 300 + 512), Some(far as u64));
}

/// If few entries have changed, a pass does nothing, and does not even call `go_on`.
#[test]
fn little_change_is_left_for_later() {
    let (_arena, table) = table();
    (0..LEAF as u32 * 32).for_each(|index| set(&table, index, 1));
    rebalance_all(&table);
    (0..LEAF as u32).for_each(|index| clear(&table, index));
    assert_eq!(table.rebalance(&mut || panic!("there is little to do")), 0);
    (0..LEAF as u32 + 1).for_each(|index| clear(&table, LEAF as u32 + index));
    assert_eq!(rebalance(&table), 2 * table.nodes.bytes(NodeKind::DENSE));
}

/// Fills 373,000 entries and empties those for which `stay` returns false. Returns the size in
/// bytes of the table and of its nodes' pages, and the number of entries kept. The arena's metadata
/// of released pages are not counted.
fn bytes_after(stay: impl Fn(u32) -> bool) -> (usize, usize) {
    const COUNT: u32 = 373_000;
    let (arena, table) = table();
    let empty = arena.bytes();
    (0..COUNT).for_each(|index| set(&table, index, index as u64 + 1));
    let full = arena.bytes() - empty + table.bytes();
    assert!(full < COUNT as usize * 9, "{full} bytes");
    (0..COUNT).filter(|&index| !stay(index)).for_each(|index| clear(&table, index));
    assert!(rebalance(&table) > 0);
    table.check();
    let live = (0..COUNT).filter(|&index| stay(index));
    let live = live.inspect(|&index| assert_eq!(get(&table, index), index as u64 + 1)).count();
    let managed = arena.bytes() - empty - table.page_bytes();
    println!("{} bytes of nodes, {managed} to manage the pages", table.node_bytes());
    (table.page_bytes() + table.bytes(), live)
}

#[test]
fn a_random_removal_leaves_little() {
    let seed = seed(3);
    let stay = |index| Rng::with_seed(seed ^ u64::from(index)).u32(..100) < 3;
    let (bytes, live) = bytes_after(stay);
    println!("random: {bytes} bytes, {live} entries, {:.2} each", bytes as f64 / live as f64);
    let constant = 40 << 10;
    assert!(bytes < live * 15 + 8 * 729 + 8 * 1024 + constant, "{bytes} bytes for {live} entries");
}

#[test]
fn a_contiguous_removal_leaves_nothing() {
    let (bytes, live) = bytes_after(|index| index % 373_000 >= 335_700);
    println!("contiguous: {bytes} bytes, {live} entries, {:.2} each", bytes as f64 / live as f64);
    let constant = 16 << 10;
    assert!(
        bytes < live * 8 + live / 2 + 8 * 729 + 8 * 1024 + constant,
        "{bytes} bytes for {live} entries"
    );
}

/// A row moves with its entry, and costs 4 bytes per column. Rows leave the ends of some cache
/// lines unused.
#[test]
fn rows_go_with_their_entries() {
    for (access_time, checksum, lines) in
        [(false, false, 64), (true, false, 103), (false, true, 103), (true, true, 128)]
    {
        let arena = MetadataArena::new(page::Config::default()).unwrap();
        let table = Table::new(&arena, Columns { access_time, checksum }).unwrap();
        assert_eq!(table.nodes.bytes(NodeKind::DENSE), lines * 64);
        let columns = usize::from(access_time) + usize::from(checksum);
        let packed = 8 + 96 * (8 + 4 * columns + 2);
        assert_eq!(table.nodes.bytes(NodeKind::packed(96)), packed.next_multiple_of(16));
        let sum = |index: u32| index.wrapping_mul(0x9e37_79b9);
        let says = |index: u32| {
            let row = |_: &Entry, row: Row<'_>| (row.access_time(), row.checksum());
            table.peek(index, row).unwrap()
        };
        let is_right = |index: u32| {
            let expected = (access_time.then_some(index + 1), checksum.then_some(sum(index)));
            assert_eq!(says(index), expected, "entry {index}");
        };
        let store = |index: u32| {
            let entry = table.lock(index).unwrap();
            entry.row().set_access_time(index + 1);
            entry.row().set_checksum(sum(index));
            unlock(entry, 1);
        };
        // The entries are in packed nodes and then move into an inner node. Later a leaf becomes
        // dense, and then its entries are packed again.
        (0..101).map(|nth| nth * 977 % 65_536).for_each(store);
        (0..101).map(|nth| nth * 977 % 65_536).for_each(is_right);
        (70_000..71_000).for_each(store);
        rebalance_all(&table);
        (70_000..71_000).for_each(is_right);
        (70_000..71_000).filter(|index| index % 9 != 0).for_each(|index| clear(&table, index));
        assert_eq!(says(70_001).0, access_time.then_some(0), "emptied");
        assert!(rebalance_all(&table) > 0);
        (70_000..71_000).filter(|index| index % 9 == 0).for_each(is_right);
        table.check();
    }
}

/// A supply that grants the first `most` requests, and refuses all others. The test increments
/// `most` after each refusal.
#[derive(Debug, Default)]
struct Scarce {
    granted: AtomicU64,
    most: AtomicU64,
}

impl page::Supply for Scarce {
    fn grant(&self, _request: page::Request) -> bool {
        self.granted.fetch_add(1, Ordering::Relaxed) < self.most.load(Ordering::Relaxed)
    }
}

/// If an allocation is refused, nothing changes, and the entry is created once memory is available.
#[test]
fn a_refusal_changes_nothing() {
    let scarce = Arc::new(Scarce::default());
    scarce.most.store(u64::MAX, Ordering::Relaxed);
    let config = page::Config { supply: Some(scarce.clone()), ..page::Config::default() };
    let arena = MetadataArena::new(config).unwrap();
    let table = Table::new(&arena, Columns::default()).unwrap();
    let mut rng = Rng::with_seed(seed(5));
    let far = (0..300).map(|_| rng.u32(..));
    let near = (0..3000).map(|nth| (5 << 16) + nth * 21);
    let mut made = Vec::new();
    let mut refused = 0;
    for index in far.chain(near) {
        scarce.most.store(0, Ordering::Relaxed);
        loop {
            scarce.granted.store(0, Ordering::Relaxed);
            let (bytes, room) = (table.node_bytes(), table.making.lock().room);
            match table.lock(index) {
                Ok(entry) => break unlock(entry, 1 + index as u64),
                Err(_) => {
                    refused += 1;
                    assert_eq!((table.node_bytes(), table.making.lock().room), (bytes, room));
                    assert!(table.peek(index, |_, _| ()).is_none());
                }
            }
            scarce.most.fetch_add(1, Ordering::Relaxed);
        }
        rebalance(&table);
        made.push(index);
    }
    assert!(refused > 20, "{refused} refusals");
    table.check();
    made.iter().for_each(|&index| assert_eq!(get(&table, index), 1 + index as u64));
}

#[test]
fn reads_that_wait_for_a_writer_are_counted() {
    let (_arena, table) = table();
    set(&table, 0, 1);
    let entry = table.lock_existing(0, |_| true).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| get(&table, 0));
        while table.read_waits() == 0 {
            std::thread::yield_now();
        }
        unlock(entry, 2);
        assert_eq!(reader.join().unwrap(), 2);
    });
    assert_eq!(table.read_waits(), 1);
}

/// Each writer owns some entries, and records their contents. Another thread reads all entries, and
/// a further thread rebalances.
#[test]
fn threads_find_their_words_while_leaves_are_converted() {
    const WRITERS: u32 = 3;
    const COUNT: u32 = LEAF as u32 * 6;
    let (_arena, table) = table();
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let value = |index: u32, version: u64| (index as u64) << 32 | version;
    std::thread::scope(|scope| {
        let (table, stop, done) = (&table, &stop, &done);
        let mut seeds = Rng::with_seed(seed(1));
        for writer in 0..WRITERS {
            let mut rng = seeds.fork();
            scope.spawn(move || {
                let mut mine = HashMap::new();
                let mut version = 0;
                while !stop.load(Ordering::Relaxed) {
                    // All writers fill leaves in even phases, and empty leaves in odd phases.
                    let phase = done.load(Ordering::Relaxed) / (32 * u64::from(COUNT));
                    let full = if phase.is_multiple_of(2) { rng.u32(1..100) } else { 1 };
                    let operations = rng.u32(1..2000);
                    done.fetch_add(operations.into(), Ordering::Relaxed);
                    for _ in 0..operations {
                        let index = rng.u32(..COUNT / WRITERS) * WRITERS + writer;
                        version += 1;
                        let expected = mine.get(&index).copied().unwrap_or(0);
                        assert_eq!(get(table, index), expected, "entry {index}");
                        if rng.u32(..100) < full {
                            set(table, index, value(index, version));
                            mine.insert(index, value(index, version));
                        } else {
                            clear(table, index);
                            mine.remove(&index);
                        }
                    }
                }
                for index in (0..COUNT / WRITERS).map(|nth| nth * WRITERS + writer) {
                    let expected = mine.get(&index).copied().unwrap_or(0);
                    assert_eq!(get(table, index), expected, "entry {index} at the end");
                }
            });
        }
        let mut rng = seeds.fork();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // The thread holds two pins at a time. The second pin must be of another entry,
                // because a writer may already wait for the first pin.
                let first = rng.u32(..COUNT);
                let pins = [first, (first + 1 + rng.u32(..COUNT - 1)) % COUNT]
                    .map(|index| (index, table.lock_shared(index, |_| true)));
                for (index, entry) in pins {
                    let payload = entry.map_or(0, |entry| entry.value().decode().unwrap_err());
                    assert!(payload == 0 || payload >> 32 == index as u64, "{index}: {payload:#x}");
                }
            }
        });
        let (begun, mut freed) = (Instant::now(), 0);
        let is_over = |secs| begun.elapsed() > Duration::from_secs(secs);
        // On a busy machine, the loop continues until the writers have run.
        while !is_over(2) || (freed == 0 && !is_over(120)) {
            freed += rebalance_all(table);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(freed > 0);
    });
    rebalance_all(&table);
    table.check();
}
