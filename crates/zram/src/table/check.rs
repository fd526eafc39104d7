//! Asserts the invariants of a device's entries while no request or job is under way.

use super::Table;
use super::change::{block_object, live_members};
use super::walk::blocks_from;
use crate::block::{BlockKind, Members};
use crate::counters::{Counters, Weight};
use crate::slot::{self, BackingPlace, SlotKind};
use crate::stats::MmStat;
use zsmalloc::{Content, Old};

/// Asserts that the counters equal the sums over the entries (I4), and that each block's object
/// contains the block's live members (zr-B2).
pub(crate) fn check_entries(table: &Table) {
    let layout = table.layout;
    if layout.has_blocks() && table.check_not_left_behind().is_err() {
        // A child process does not have the pool's pages.
        return;
    }
    let sums = Counters::new(1);
    let mut places = Vec::new();
    for block in blocks_from(table, 0) {
        let pin = layout.has_blocks().then(|| table.pool.read(layout.block_entry(block)));
        let content = pin.as_ref().map_or(Content::Inline(0), |pin| pin.content());
        for slot in layout.slots_of(block) {
            let held = table.pool.look_at(slot, |held, _| held).unwrap_or(Old::Inline(0));
            let kind = SlotKind::of(held);
            let is_hole_in_nothing = kind == SlotKind::Hole && slot::is_empty(content);
            assert!(!is_hole_in_nothing, "slot {slot}: a hole in nothing");
            places.extend(BackingPlace::of(held));
            sums.shard(0).changed(Weight::default(), kind.weight());
        }
        if !slot::is_empty(content) {
            places.extend(BackingPlace::of(content));
            check_block(table, block, content);
            let weight = BlockKind::of(content, layout.slots()).weight();
            sums.shard(0).changed(Weight::default(), weight);
            sums.shard(0).changed_live([0, live_members(table, block).count()]);
        }
    }
    let (now, sum) = (table.counters.mm_stat(), sums.mm_stat());
    assert_eq!(now, MmStat { huge_pages_since: now.huge_pages_since, ..sum });
    assert_eq!(table.counters.in_objects(), sums.in_objects());
    table.store.iter().for_each(|store| store.check(&places));
}

/// Asserts that a block has a live member. Asserts that an object in memory contains all live
/// members of the block.
fn check_block(table: &Table, block: u32, content: Content<&[u8]>) {
    let live = live_members(table, block);
    assert!(live != Members::default(), "block {block} has an object, but no slot");
    if BackingPlace::of(content).is_none() {
        let members = match block_object(table, block, content) {
            Ok(Some(stored)) => stored.members,
            _ => panic!("block {block}: {content:?}"),
        };
        let others = live.without(members);
        assert!(others == Members::default(), "block {block}: {others:?} not in {members:?}");
    }
}
