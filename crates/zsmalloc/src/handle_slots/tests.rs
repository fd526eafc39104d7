//! Tests of handle slots: the order in which they are allocated, their generations, and the memory
//! of free slots.
#![allow(clippy::unwrap_used, unsafe_code)]

use super::*;
use crate::meta::MetadataArena;
use crate::table::helpers::{unlock, unlock_object};
use crate::table::policy::FLOOR_LIFT_MAX;
use fastrand::Rng;
use std::sync::Arc;
use testkit::seed;

struct Slots {
    table: Table,
    handles: HandleSlots,
}

impl Slots {
    fn live(&self) -> u64 {
        self.handles.live(&self.table)
    }

    fn bytes(&self) -> usize {
        self.table.bytes() + self.handles.bytes()
    }

    fn check(&self) {
        self.table.check();
        self.handles.check(&self.table);
    }
}

fn slots(first: u32) -> (Arc<MetadataArena>, Slots) {
    let arena = MetadataArena::new(page::Config::default()).unwrap();
    let table = Table::of_handles(&arena, first).unwrap();
    (arena, Slots { table, handles: HandleSlots::new() })
}

/// Allocates a handle slot, whose entry refers to an object that is never read. Returns the slot's
/// number and generation.
fn give_out(slots: &Slots) -> (u32, u32) {
    let (index, entry) = slots.handles.claim(&slots.table).unwrap();
    let generation = entry.row().generation();
    slots.handles.mark_used(&slots.table, index);
    unlock_object(entry, 8 * index as u64, 1);
    (index, generation)
}

fn take_back(slots: &Slots, index: u32) {
    let entry = slots.table.lock_existing(index, |_| true).unwrap();
    let generation = entry.row().generation();
    unlock(entry, 0);
    slots.handles.mark_free(&slots.table, index, generation);
}

/// Clears the lists of recently freed slots, so that the next slots are taken from leaves.
fn forget_recent(slots: &Slots) {
    slots.handles.shards.iter().for_each(|shard| shard.free.lock().count = 0);
}

#[test]
fn slots_that_came_free_are_given_out_first() {
    let (_arena, slots) = slots(1);
    (0..600).for_each(|nth| assert_eq!(give_out(&slots), (nth, 1)));
    [300, 7, 599].into_iter().for_each(|index| take_back(&slots, index));
    let next: Vec<_> = (0..4).map(|_| give_out(&slots)).collect();
    assert_eq!(next, [(599, 2), (7, 2), (300, 2), (600, 1)]);
    slots.check();
}

#[test]
fn slots_are_given_out_from_the_lowest_leaf_with_room() {
    let (_arena, slots) = slots(1);
    let leaf = LEAF as u32;
    (0..4 * leaf).for_each(|nth| assert_eq!(give_out(&slots), (nth, 1)));
    // Until another slot is freed, the leaf has fewer free slots than a shard requires.
    (0..LEAF_ROOM_MIN - 1).for_each(|nth| take_back(&slots, leaf + nth));
    forget_recent(&slots);
    assert_eq!(give_out(&slots), (4 * leaf, 1));
    take_back(&slots, 2 * leaf - 1);
    forget_recent(&slots);
    (1..leaf).for_each(|nth| assert_eq!(give_out(&slots).0, 4 * leaf + nth));
    (0..LEAF_ROOM_MIN - 1).for_each(|nth| assert_eq!(give_out(&slots), (leaf + nth, 2)));
    assert_eq!(give_out(&slots), (2 * leaf - 1, 2));
    assert_eq!(give_out(&slots), (5 * leaf, 1));
    assert_eq!(slots.live(), 5 * leaf as u64 + 1);
    slots.check();
}

#[test]
fn a_slot_that_went_comes_back_with_a_later_generation() {
    let (_arena, slots) = slots(7);
    (0..LEAF as u32).for_each(|_| assert_eq!(give_out(&slots).1, 7));
    take_back(&slots, 3);
    (0..20).for_each(|_| take_back(&slots, give_out_in_place(&slots, 3)));
    (0..LEAF as u32).filter(|&index| index != 3).for_each(|index| take_back(&slots, index));
    slots.table.rebalance(&mut || true);
    assert_eq!(slots.table.first_made(0), None);
    forget_recent(&slots);
    assert_eq!(give_out(&slots), (0, 28));
    slots.check();
}

/// Allocates the free handle slot `index`.
fn give_out_in_place(slots: &Slots, index: u32) -> u32 {
    let entry = slots.table.claim(index).unwrap().unwrap();
    slots.handles.mark_used(&slots.table, index);
    unlock_object(entry, 8, 1);
    index
}

/// A slot that is removed from the table raises the floor. The higher floor must not cause the
/// removal of a slot that should be kept.
#[test]
fn slots_that_go_leave_those_that_stay() {
    let (_arena, slots) = slots(1);
    (0..LEAF as u32).for_each(|_| assert_eq!(give_out(&slots).1, 1));
    for (index, generation) in [(0, FLOOR_LIFT_MAX - 56), (1, 2 * FLOOR_LIFT_MAX - 112)] {
        take_back(&slots, index);
        (2..generation).for_each(|_| take_back(&slots, give_out_in_place(&slots, index)));
    }
    (2..LEAF as u32).for_each(|index| take_back(&slots, index));
    slots.table.rebalance(&mut || true);
    for (index, generation) in [(0, FLOOR_LIFT_MAX - 56), (1, 2 * FLOOR_LIFT_MAX - 112)] {
        give_out_in_place(&slots, index);
        let next = slots.table.peek(index, |_, row| row.generation()).unwrap();
        assert!(next >= generation, "slot {index} had generation {generation}, now {next}");
    }
    slots.check();
}

#[test]
fn a_slot_that_is_used_up_is_not_given_out_again() {
    let (_arena, slots) = slots(GENERATION_MAX - 1);
    for generation in [GENERATION_MAX - 1, GENERATION_MAX] {
        (0..LEAF as u32).for_each(|nth| assert_eq!(give_out(&slots), (nth, generation)));
        (0..LEAF as u32).for_each(|index| take_back(&slots, index));
        forget_recent(&slots);
        slots.table.rebalance(&mut || true);
        slots.check();
    }
    assert_eq!(slots.live(), 0);
    assert_eq!(give_out(&slots), (LEAF as u32, GENERATION_MAX - 1));
    slots.check();
}

/// Slot 5 is used so often that its removal would raise the generations of the other slots in its
/// leaf.
#[test]
fn a_much_used_slot_stays_and_the_others_go() {
    let (_arena, slots) = slots(1);
    (0..LEAF as u32).for_each(|nth| assert_eq!(give_out(&slots).0, nth));
    take_back(&slots, 5);
    (0..2 * FLOOR_LIFT_MAX).for_each(|_| take_back(&slots, give_out_in_place(&slots, 5)));
    (0..LEAF as u32).filter(|&index| index != 5).for_each(|index| take_back(&slots, index));
    slots.table.rebalance(&mut || true);
    let mut left = Vec::new();
    slots.table.for_each(|index, _, row| left.push((index, row.generation())));
    assert_eq!(left, [(5, 2 + 2 * FLOOR_LIFT_MAX)]);
    forget_recent(&slots);
    assert_eq!(give_out(&slots), (0, 2));
    slots.check();
}

#[test]
fn a_child_counts_anew_and_ends_generations() {
    let (_arena, slots) = slots(1);
    (0..LEAF as u32).for_each(|nth| assert_eq!(give_out(&slots).0, nth));
    take_back(&slots, 5);
    // One lost thread was about to store an object. Another lost thread had emptied an entry, but
    // had not counted the entry's slot as free yet.
    std::mem::forget(slots.handles.claim(&slots.table).unwrap());
    unlock(slots.table.lock_existing(6, |_| true).unwrap(), 0);
    // SAFETY: no other thread uses the table.
    unsafe { slots.table.repair() };
    slots.handles.repair(&slots.table);
    slots.check();
    assert_eq!(slots.live(), LEAF as u64 - 2);
}

#[test]
fn free_slots_take_little() {
    const COUNT: u32 = 373_000;
    let (arena, slots) = slots(1);
    let empty = arena.bytes();
    (0..COUNT).for_each(|nth| assert_eq!(give_out(&slots).0, nth));
    let full = arena.bytes() - empty + slots.bytes();
    println!("full: {:.2} bytes each", full as f64 / COUNT as f64);
    // Five slots fit into a cache line. The limit also allows for unused bytes at the ends of
    // slabs.
    assert!(full < COUNT as usize * 27 / 2, "{full} bytes");
    let mut rng = Rng::with_seed(seed(5));
    let live = (0..COUNT).filter(|_| rng.u32(..100) < 3).collect::<Vec<_>>();
    let mut kept = live.iter().copied().peekable();
    for index in 0..COUNT {
        if kept.next_if_eq(&index).is_none() {
            take_back(&slots, index);
        }
    }
    slots.table.rebalance(&mut || true);
    slots.check();
    assert_eq!(slots.live(), live.len() as u64);
    let bytes = slots.table.page_bytes() + slots.bytes();
    println!("random: {bytes} bytes, {:.2} each", bytes as f64 / live.len() as f64);
    assert!(bytes < live.len() * 20 + 16 * 729 + (40 << 10), "{bytes} bytes");
}
