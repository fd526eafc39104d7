//! Which cells are given out, what their generations become, and what free ones take.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::core::sealed::Owner;
use crate::word::Place;
use crate::words::helpers::seed;
use fastrand::Rng;

fn cells(first: u32) -> (Arc<Arena>, Cells) {
    let arena = Arena::new(page::Config::default()).unwrap();
    let cells = Cells::new(&arena, first).unwrap();
    (arena, cells)
}

/// Gives a cell out: its number and generation. It names an object that is not looked at.
fn give_out(cells: &Cells) -> (u32, u32) {
    let (index, word) = cells.take().unwrap();
    let generation = word.beside().now();
    cells.given_out(index);
    word.unlock(Value::object(Place { offset: 8 * index as u64, len: 1, mark: 0 }));
    (index, generation)
}

fn take_back(cells: &Cells, index: u32) {
    let word = cells.words.lock_exclusive(index, |_| true).unwrap();
    let generation = word.beside().now();
    word.unlock(Value::EMPTY);
    cells.taken_back(index, generation);
}

/// Has cells looked for in leaves.
fn forget_recent(cells: &Cells) {
    cells.shards.iter().for_each(|shard| shard.free.lock().count = 0);
}

#[test]
fn cells_that_came_free_are_given_out_first() {
    let (_arena, cells) = cells(1);
    (0..600).for_each(|nth| assert_eq!(give_out(&cells), (nth, 1)));
    [300, 7, 599].into_iter().for_each(|index| take_back(&cells, index));
    let next: Vec<_> = (0..4).map(|_| give_out(&cells)).collect();
    assert_eq!(next, [(599, 2), (7, 2), (300, 2), (600, 1)]);
    cells.check();
}

#[test]
fn cells_are_given_out_from_the_lowest_leaf_with_room() {
    let (_arena, cells) = cells(1);
    let leaf = LEAF as u32;
    (0..4 * leaf).for_each(|nth| assert_eq!(give_out(&cells), (nth, 1)));
    // Too few to go there for, until there are enough.
    (0..ROOM_MIN - 1).for_each(|nth| take_back(&cells, leaf + nth));
    forget_recent(&cells);
    assert_eq!(give_out(&cells), (4 * leaf, 1));
    take_back(&cells, 2 * leaf - 1);
    forget_recent(&cells);
    (1..leaf).for_each(|nth| assert_eq!(give_out(&cells).0, 4 * leaf + nth));
    (0..ROOM_MIN - 1).for_each(|nth| assert_eq!(give_out(&cells), (leaf + nth, 2)));
    assert_eq!(give_out(&cells), (2 * leaf - 1, 2));
    assert_eq!(give_out(&cells), (5 * leaf, 1));
    assert_eq!(cells.live(), 5 * leaf as u64 + 1);
    cells.check();
}

#[test]
fn a_cell_that_went_comes_back_with_a_later_generation() {
    let (_arena, cells) = cells(7);
    (0..LEAF as u32).for_each(|_| assert_eq!(give_out(&cells).1, 7));
    take_back(&cells, 3);
    (0..20).for_each(|_| take_back(&cells, give_out_in_place(&cells, 3)));
    (0..LEAF as u32).filter(|&index| index != 3).for_each(|index| take_back(&cells, index));
    cells.words.tidy(&mut || true);
    assert_eq!(cells.words.first_made(0), None);
    forget_recent(&cells);
    assert_eq!(give_out(&cells), (0, 28));
    cells.check();
}

/// Gives out a cell that is free.
fn give_out_in_place(cells: &Cells, index: u32) -> u32 {
    let word = cells.words.claim(index).unwrap().unwrap();
    cells.given_out(index);
    word.unlock(Value::object(Place { offset: 8, len: 1, mark: 0 }));
    index
}

/// What one cell's going does to the floor is not to make another go that was to stay.
#[test]
fn cells_that_go_leave_those_that_stay() {
    let (_arena, cells) = cells(1);
    (0..LEAF as u32).for_each(|_| assert_eq!(give_out(&cells).1, 1));
    for (index, generation) in [(0, LIFT - 56), (1, 2 * LIFT - 112)] {
        take_back(&cells, index);
        (2..generation).for_each(|_| take_back(&cells, give_out_in_place(&cells, index)));
    }
    (2..LEAF as u32).for_each(|index| take_back(&cells, index));
    cells.words.tidy(&mut || true);
    for (index, generation) in [(0, LIFT - 56), (1, 2 * LIFT - 112)] {
        give_out_in_place(&cells, index);
        let next = cells.words.with(index, |_, beside| beside.now()).unwrap();
        assert!(next >= generation, "cell {index} had generation {generation}, now {next}");
    }
    cells.check();
}

#[test]
fn a_cell_that_is_used_up_is_not_given_out_again() {
    let (_arena, cells) = cells(GENERATION_MAX - 1);
    for generation in [GENERATION_MAX - 1, GENERATION_MAX] {
        (0..LEAF as u32).for_each(|nth| assert_eq!(give_out(&cells), (nth, generation)));
        (0..LEAF as u32).for_each(|index| take_back(&cells, index));
        forget_recent(&cells);
        cells.words.tidy(&mut || true);
        cells.check();
    }
    assert_eq!(cells.live(), 0);
    assert_eq!(give_out(&cells), (LEAF as u32, GENERATION_MAX - 1));
    cells.check();
}

/// Cell 5 is used so much that it would age the others of its leaf.
#[test]
fn a_much_used_cell_stays_and_the_others_go() {
    let (_arena, cells) = cells(1);
    (0..LEAF as u32).for_each(|nth| assert_eq!(give_out(&cells).0, nth));
    take_back(&cells, 5);
    (0..2 * LIFT).for_each(|_| take_back(&cells, give_out_in_place(&cells, 5)));
    (0..LEAF as u32).filter(|&index| index != 5).for_each(|index| take_back(&cells, index));
    cells.words.tidy(&mut || true);
    let mut left = Vec::new();
    cells.words.for_each(|index, _, generation| left.push((index, generation.now())));
    assert_eq!(left, [(5, 2 + 2 * LIFT)]);
    forget_recent(&cells);
    assert_eq!(give_out(&cells), (0, 2));
    cells.check();
}

#[test]
fn a_child_counts_anew_and_ends_generations() {
    let (_arena, cells) = cells(1);
    (0..LEAF as u32).for_each(|nth| assert_eq!(give_out(&cells).0, nth));
    take_back(&cells, 5);
    // A thread was about to store, another had emptied a word and not come to counting that.
    std::mem::forget(cells.take().unwrap());
    cells.words.lock_exclusive(6, |_| true).unwrap().unlock(Value::EMPTY);
    cells.mend();
    cells.check();
    assert_eq!(cells.live(), LEAF as u64 - 2);
}

#[test]
fn free_cells_take_little() {
    const COUNT: u32 = 373_000;
    let (arena, cells) = cells(1);
    let empty = arena.bytes();
    (0..COUNT).for_each(|nth| assert_eq!(give_out(&cells).0, nth));
    let full = arena.bytes() - empty + cells.bytes();
    println!("full: {:.2} bytes each", full as f64 / COUNT as f64);
    // Five to a line of memory, and the tails of slabs.
    assert!(full < COUNT as usize * 27 / 2, "{full} bytes");
    let mut rng = Rng::with_seed(seed(5));
    let live = (0..COUNT).filter(|_| rng.u32(..100) < 3).collect::<Vec<_>>();
    let mut kept = live.iter().copied().peekable();
    for index in 0..COUNT {
        if kept.next_if_eq(&index).is_none() {
            take_back(&cells, index);
        }
    }
    cells.words.tidy(&mut || true);
    cells.check();
    assert_eq!(cells.live(), live.len() as u64);
    let bytes = cells.words.page_bytes() + cells.bytes();
    println!("random: {bytes} bytes, {:.2} each", bytes as f64 / live.len() as f64);
    assert!(bytes < live.len() * 20 + 16 * 729 + (40 << 10), "{bytes} bytes");
}
