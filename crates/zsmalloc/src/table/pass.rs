//! Passes over all leaves and spans. A pass is made if enough entries have changed.
#![allow(unsafe_code)]

use super::Table;
use super::convert::{Outcome, convert};
use super::layout::{LEAF, LEAVES, Level, NodeKind};
use super::policy::{PASS_CHANGED_SHARE, PASS_MADE_SHARE};

/// The number of steps per span: one for each leaf, then one for the span as a whole.
const STEPS: u64 = LEAVES as u64 + 1;

/// The state of the last pass.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// True while a thread makes a pass or is in `absorb_now` (zs-T4).
    rebalancing: bool,
    /// The step at which the last pass was stopped, or 0 if that pass was complete.
    next: u64,
    /// The number of entries that had become empty when the last complete pass began.
    emptied: u64,
    /// The number of entries that count as changed because of new nodes.
    owed: u64,
}

impl Last {
    pub(super) fn made(&mut self, kind: NodeKind) {
        self.owed += if kind.is_dense() { (LEAF / PASS_MADE_SHARE) as u64 } else { 0 };
    }

    /// Records that a node was appended after other nodes and should be merged with them.
    pub(super) fn made_behind(&mut self, kind: NodeKind) {
        self.owed += (kind.capacity() / PASS_MADE_SHARE).max(1) as u64;
    }

    #[cfg(test)]
    pub(super) fn owe(&mut self, entries: usize) {
        self.owed += entries as u64 + 1;
    }

    /// In a child of fork, ends the pass of a thread that the child lacks.
    pub(super) fn forget_lost(&mut self) {
        self.rebalancing = false;
    }
}

struct Pass {
    /// The number of the next step. Each span has `STEPS` steps.
    next: u64,
    emptied: u64,
    owed: u64,
    /// The number of chains whose conversion failed, in most cases because an entry was locked.
    busy: u64,
    freed: usize,
    state: State,
}

/// Marks this thread as the only thread that rebalances. If the caller's code panics, dropping this
/// guard clears the mark. The guard must be dropped with no lock held.
struct Rebalancing<'w>(&'w Table);

impl Drop for Rebalancing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Readers must leave before any other conversion begins (zs-T3).
            free_retired(self.0);
            self.0.making.lock().pass.rebalancing = false;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    Stopped,
    Done,
}

/// Implements [`Table::rebalance`].
pub(super) fn rebalance(table: &Table, go_on: &mut dyn FnMut() -> bool) -> usize {
    let Some(mut pass) = begin_pass(table) else { return 0 };
    let _rebalancing = Rebalancing(table);
    while pass.state == State::Going {
        if convert_some(table, &mut pass, go_on) {
            // All present readers must leave before other entries are frozen or memory is reused.
            free_retired(table);
        }
    }
    if pass.freed > 0 {
        table.nodes.shrink();
    }
    end_pass(table, &pass);
    pass.freed
}

/// Converts one chain, if no other thread rebalances and no entry of the chain is locked. Otherwise
/// a later pass converts the chain.
pub(super) fn absorb_now(table: &Table, span: u64, level: Level) {
    // The guard is declared before `locked`, so that it is dropped after the lock.
    let _rebalancing;
    let mut locked = table.lock_making();
    if std::mem::replace(&mut locked.making.pass.rebalancing, true) {
        return;
    }
    _rebalancing = Rebalancing(table);
    // The entry just created is empty, so the conversion is allowed to remove it. The argument 1
    // keeps space to create the entry again.
    convert(&mut locked, span, level, 1);
    drop(locked);
    free_retired(table);
    table.making.lock().pass.rebalancing = false;
}

fn begin_pass(table: &Table) -> Option<Pass> {
    let mut making = table.making.lock();
    // The count is read under the lock, so it is at least the count that any earlier pass has read.
    let tallied = table.epoch.emptied();
    let room = making.room as u64;
    let last = &mut making.pass;
    let changed = tallied - last.emptied + last.owed;
    if last.rebalancing || changed == 0 || changed * PASS_CHANGED_SHARE < room {
        return None;
    }
    last.rebalancing = true;
    let (next, owed) = (last.next, last.owed);
    Some(Pass { next, emptied: tallied, owed, busy: 0, freed: 0, state: State::Going })
}

fn end_pass(table: &Table, pass: &Pass) {
    let last = &mut table.making.lock().pass;
    last.rebalancing = false;
    if pass.state == State::Done {
        last.next = 0;
        last.emptied = pass.emptied;
        last.owed = last.owed - pass.owed + pass.busy * LEAF as u64;
    } else {
        last.next = pass.next;
    }
}

/// Converts chains until the pass is over or the thread must wait for readers. Returns whether any
/// conversion was begun.
fn convert_some(table: &Table, pass: &mut Pass, go_on: &mut dyn FnMut() -> bool) -> bool {
    let (mut begun, mut leaves_begun) = (false, false);
    loop {
        let Some((step, span, level)) = next_step(table, pass.next) else {
            pass.state = State::Done;
            return begun;
        };
        if level == Level::Span && leaves_begun {
            // The leaves of this span were just converted, so their entries must not be frozen
            // again yet (zs-T3).
            return begun;
        }
        if !go_on() {
            pass.state = State::Stopped;
            return begun;
        }
        pass.next = step + 1;
        let mut locked = table.lock_making();
        let outcome = convert(&mut locked, span, level, 0);
        let was_begun = matches!(outcome, Outcome::GivenUp | Outcome::Converted(_));
        begun |= was_begun;
        leaves_begun |= was_begun && level != Level::Span;
        match outcome {
            Outcome::Left => {}
            Outcome::Busy | Outcome::GivenUp => pass.busy += 1,
            Outcome::Converted(bytes) => pass.freed += bytes,
            Outcome::Absorbed(bytes) => {
                pass.freed += bytes;
                pass.next = span * STEPS;
                return true;
            }
        }
        if !locked.making.retired.has_room() {
            return begun;
        }
    }
}

/// Returns the number, span and level of the first step at or after `next` whose chain has nodes. A
/// span's leaves are converted only when no packed node precedes the inner node.
fn next_step(table: &Table, next: u64) -> Option<(u64, u64, Level)> {
    let (first, done) = (next / STEPS, next % STEPS);
    let mut made = table.spans.from(first).filter(|(_, link)| link.is_made());
    let (span, _) = made.next()?;
    let done = if span == first { done as usize } else { 0 };
    let inside = table.enter();
    let inner = inside.first(span).filter(|node| node.kind().is_inner());
    let is_made = |leaf: &usize| inner.is_some_and(|inner| inner.leaf(*leaf).link().is_made());
    let (nth, level) = match (done..LEAVES).find(is_made) {
        Some(leaf) => (leaf, Level::Leaf(leaf)),
        None => (LEAVES, Level::Span),
    };
    Some((span * STEPS + nth as u64, span, level))
}

/// Waits until all present readers have left, then frees the nodes that were retired before the
/// wait.
fn free_retired(table: &Table) {
    let until = table.making.lock().retired.retired_count();
    table.epoch.wait();
    // The lock is dropped after each chain, because other threads may wait to create entries.
    // SAFETY: all readers that could have found these chains have left (zs-W2), and `retired`
    // belongs to this table.
    while unsafe { table.nodes.free_first(&mut table.making.lock().retired, until) } {}
}
