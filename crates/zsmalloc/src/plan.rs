//! The plan: the set of open size classes, given the number of objects of each size.
//!
//! ```text
//!   sizes (8 bytes apart)   a  b  c  d  e  f  g  h     n(a) .. n(h): live objects of each size
//!   open classes                  |     |        |     an object: in the smallest that holds it
//! ```
//! An open class costs about half a page, the unused part of its last page. If the class is closed,
//! its objects are rounded up to the next open class instead. Therefore, a small pool needs few
//! open classes, and a large pool needs many. Let cost(j) be the cost of the cheapest set of open
//! classes up to size j, if the class of size j is open:
//!
//! ```text
//!   cost(j) = min over i < j of
//!             cost(i) + opening(j) + sum of n(b) * (size(j) - size(b)), b in i+1 ..= j
//! ```
//! Let N(i) be the sum of n(b), and B(i) the sum of n(b) * size(b), over the sizes up to i. The
//! part of cost(j) that depends on i is then `cost(i) + B(i) - N(i) * size(j)`. This part is a line
//! in size(j), and the slopes of the lines fall as i grows. One walk along the lower hull of these
//! lines finds the best i for every j. So the time to compute a plan is linear in the number of
//! sizes.

use crate::Error;
use crate::geometry::CLASSES_MAX;
use crate::policy::{self, CHANGE_MIN};
use crate::sync::{AtomicUsize, Ordering::Relaxed};
use page::fork::{Mutex, Step};
use page::heap::boxed;
use page::{Supply, page_size};
use std::sync::atomic::AtomicU16;

/// The open class for objects of each size. Sizes and classes are given by their position in the
/// table of all classes.
#[derive(Debug)]
pub(crate) struct Plan {
    /// For the size at each position, the position of the open class for objects of that size.
    pub(crate) class_for: Box<[AtomicU16]>,
    /// True if the plan depends on the stored objects. If false, all classes stay open.
    is_remade: bool,
    open: AtomicUsize,
    /// The plan is outdated if more than `above` or fewer than `below` pages are in use.
    above: AtomicUsize,
    below: AtomicUsize,
    planning: Mutex<()>,
}

/// The facts about one size on which a plan depends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) bytes: usize,
    pub(crate) population: u32,
    /// True if the class of this size has committed pages.
    pub(crate) is_used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The pool has grown. Present objects remain in their classes, so the plan is for new objects.
    Growth,
    /// The compactor runs, and will empty the classes that the plan closes.
    Compaction,
}

impl Plan {
    /// Returns a plan for a pool without objects. The plan has `len` classes, smallest first.
    /// `bytes` returns the size of the class at a position.
    pub(crate) fn new(
        len: usize,
        bytes: impl Fn(usize) -> usize,
        supply: Option<&dyn Supply>,
    ) -> Result<Self, Error> {
        let plan = Plan {
            is_remade: true,
            above: AtomicUsize::new(CHANGE_MIN),
            ..Plan::of_all(len, supply)?
        };
        plan.publish(&Draft::of_empty(len, bytes));
        Ok(plan)
    }

    /// Returns a plan in which all `len` classes are always open.
    pub(crate) fn of_all(len: usize, supply: Option<&dyn Supply>) -> Result<Self, Error> {
        let all = (0..len).map(|position| AtomicU16::new(position as u16));
        Ok(Plan {
            class_for: boxed(supply, all)?,
            is_remade: false,
            open: AtomicUsize::new(len),
            above: AtomicUsize::new(usize::MAX),
            below: AtomicUsize::new(0),
            planning: Mutex::default(),
        })
    }

    pub(crate) fn is_remade(&self) -> bool {
        self.is_remade
    }

    fn class_for(&self, position: usize) -> usize {
        self.class_for[position].load(Relaxed) as usize
    }

    pub(crate) fn is_open(&self, position: usize) -> bool {
        self.class_for(position) == position
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Returns whether the plan is outdated because the pool has grown to `used` pages.
    pub(crate) fn is_outgrown(&self, used: usize) -> bool {
        used > self.above.load(Relaxed)
    }

    /// Returns whether the plan is outdated because the pool has shrunk to `used` pages.
    pub(crate) fn is_too_large(&self, used: usize) -> bool {
        used < self.below.load(Relaxed)
    }

    /// Computes a new plan for a pool of `used` pages. `size` returns the facts about the size at a
    /// position. `note` is called after the plan is published, and before another plan can be
    /// computed. If another thread is computing a plan, or all classes stay open, does nothing and
    /// returns false.
    pub(crate) fn make(
        &self,
        used: usize,
        purpose: Purpose,
        size: impl Fn(usize) -> Size,
        note: impl FnOnce(),
    ) -> bool {
        let planning = self.is_remade.then(|| self.planning.try_lock()).flatten();
        let Some(_planning) = planning else { return false };
        self.publish(&Draft::new(self.class_for.len(), purpose, size));
        note();
        let change = policy::plan_change(used);
        self.above.store(used + change, Relaxed);
        self.below.store(used.saturating_sub(change), Relaxed);
        true
    }

    /// Publishes a plan, one size at a time. A reader that sees only a part of the new plan still
    /// finds a class that is large enough.
    fn publish(&self, draft: &Draft) {
        let mut next_open = self.class_for.len() - 1;
        for position in (0..self.class_for.len()).rev() {
            if draft.open[position] {
                next_open = position;
            }
            self.class_for[position].store(next_open as u16, Relaxed);
        }
        let open = draft.open[..self.class_for.len()].iter().filter(|open| **open).count();
        self.open.store(open, Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.class_for)
    }

    /// Locks the plan before a fork, or unlocks it after the fork. No thread computes a plan during
    /// the fork.
    pub(crate) fn at_fork(&self, step: Step) {
        self.planning.at_fork(step);
    }

    /// Asserts that every size has an open class that is large enough.
    pub(crate) fn check(&self) {
        let _planning = self.planning.lock();
        for position in 0..self.class_for.len() {
            let class = self.class_for(position);
            assert!(class >= position && self.is_open(class), "size {position} goes to {class}");
        }
    }
}

/// The part of cost(j) that depends on i, as a line in size(j) (see the top of this file).
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// The line's value at size(j) = 0, which is cost(i) + B(i).
    intercept: i64,
    /// The amount by which the line falls per byte, which is N(i).
    count: u32,
    /// The position of i plus 1, or 0 if no class below j is open.
    open: u16,
}

impl Line {
    /// Returns the line's value at size(j) = `bytes`.
    fn at(&self, bytes: i64) -> i64 {
        self.intercept - self.count as i64 * bytes
    }

    /// Returns whether the line `between` is nowhere below both `self` and `after`. The slopes are
    /// in this order: `self` falls least steeply, and `after` falls most steeply.
    fn makes_needless(&self, between: &Line, after: &Line) -> bool {
        let rise = |to: &Line| (to.intercept - self.intercept) as i128;
        let run = |to: &Line| (to.count - self.count) as i128;
        rise(between) * run(after) >= rise(after) * run(between)
    }
}

/// The lower hull of the added lines, which is `lines[first..end]` in the order of their slopes.
/// Lines before `first` are the lowest only at sizes below those already queried.
struct Hull {
    lines: [Line; CLASSES_MAX + 1],
    first: usize,
    end: usize,
}

impl Hull {
    /// Returns a hull of one line, whose value is 0. The line means that no class below is open and
    /// no objects are smaller.
    fn new() -> Self {
        Hull { lines: [Line::default(); CLASSES_MAX + 1], first: 0, end: 1 }
    }

    /// Returns the lowest line at `bytes`, which must not decrease from call to call.
    fn lowest(&mut self, bytes: i64) -> Line {
        let is_better = |lines: &[Line]| lines[1].at(bytes) <= lines[0].at(bytes);
        while self.first + 1 < self.end && is_better(&self.lines[self.first..]) {
            self.first += 1;
        }
        self.lines[self.first]
    }

    /// Adds a line, which must fall at least as steeply as the last line of the hull.
    fn add(&mut self, line: Line) {
        let last = self.lines[self.end - 1];
        // Two lines are parallel if no size between them has objects. Only the lower of the two
        // lines is needed.
        if last.count == line.count {
            if last.intercept <= line.intercept {
                return;
            }
            self.end -= 1;
        }
        while self.end >= self.first + 2
            && self.lines[self.end - 2].makes_needless(&self.lines[self.end - 1], &line)
        {
            self.end -= 1;
        }
        self.lines[self.end] = line;
        self.first = self.first.min(self.end);
        self.end += 1;
    }
}

/// Selects classes whose sizes are about an eighth apart. Contains the last selected size in bytes.
struct Spread(usize);

impl Spread {
    /// Returns whether the class of `bytes` bytes is selected. The sizes ascend from call to call.
    fn opens(&mut self, bytes: usize) -> bool {
        let opens = bytes >= policy::spread(self.0);
        self.0 = if opens { bytes } else { self.0 };
        opens
    }
}

/// A plan before it is published. The draft is on the stack, because a store that computes a plan
/// must not allocate.
struct Draft {
    open: [bool; CLASSES_MAX],
}

impl Draft {
    /// Opens the classes of a pool without objects: the largest class, and classes whose sizes are
    /// about an eighth apart. For a pool without objects, [`new`](Self::new) opens the same
    /// classes, but needs more time and stack.
    fn of_empty(len: usize, bytes: impl Fn(usize) -> usize) -> Self {
        let (mut draft, mut spread) = (Draft { open: [false; CLASSES_MAX] }, Spread(0));
        for position in 0..len {
            draft.open[position] = spread.opens(bytes(position)) || position + 1 == len;
        }
        draft
    }

    /// Finds the cheapest set of open classes among `len` classes. The largest class is always
    /// open.
    fn new(len: usize, purpose: Purpose, size: impl Fn(usize) -> Size) -> Self {
        let mut hull = Hull::new();
        // Element j holds the best open class below class j, if class j is open. The element is the
        // position of the lower class plus 1, or 0 if no lower class is open.
        let mut before = [0; CLASSES_MAX];
        // `apart` has the classes to open for sizes without objects, and `populated` has the sizes
        // with objects.
        let (mut populated, mut apart) = ([false; CLASSES_MAX], [false; CLASSES_MAX]);
        let (mut count, mut bytes, mut spread) = (0, 0, Spread(0));
        for position in 0..len {
            let size = size(position);
            let x = size.bytes as i64;
            count += size.population;
            bytes += size.population as i64 * x;
            populated[position] = size.population > 0;
            apart[position] = spread.opens(size.bytes);
            let best = hull.lowest(x);
            before[position] = best.open;
            let cost = best.at(x) + opening(&size, purpose) + count as i64 * x - bytes;
            hull.add(Line { intercept: cost + bytes, count, open: position as u16 + 1 });
        }
        let mut draft = Draft { open: [false; CLASSES_MAX] };
        let mut open = len;
        while let Some(position) = open.checked_sub(1) {
            draft.open[position] = true;
            open = before[position] as usize;
        }
        draft.open_for_unknown(&populated[..len], &apart[..len]);
        draft
    }

    /// Opens those classes of `spread` in which no present object would be stored. An open class
    /// costs nothing until it is used. With these classes, objects of new sizes find a class that
    /// is not much larger.
    fn open_for_unknown(&mut self, populated: &[bool], spread: &[bool]) {
        let mut serves = false;
        for (open, (&populated, &spread)) in self.open.iter_mut().zip(populated.iter().zip(spread))
        {
            serves |= populated;
            *open |= spread && !serves;
            serves &= !*open;
        }
    }
}

/// Returns the cost of an open class in bytes. If the pool has grown, a class that has pages costs
/// nothing. If such a class were closed, no page would be freed, because the class's objects would
/// remain in it.
fn opening(size: &Size, purpose: Purpose) -> i64 {
    match purpose {
        Purpose::Growth if size.is_used => 0,
        Purpose::Compaction if size.is_used => policy::class_cost(page_size()),
        _ => policy::unused_class_cost(page_size()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *seed >> 33
    }

    /// Returns the cost of a set of open classes. The last class is always open. A class in which
    /// no object is stored costs nothing.
    fn cost(sizes: &[Size], purpose: Purpose, is_open: impl Fn(usize) -> bool) -> i64 {
        let (mut cost, mut class, mut serves) = (0, sizes.len() - 1, true);
        for (position, size) in sizes.iter().enumerate().rev() {
            if is_open(position) && position < class {
                cost += if serves { opening(&sizes[class], purpose) } else { 0 };
                (class, serves) = (position, false);
            }
            serves |= size.population > 0;
            cost += size.population as i64 * (sizes[class].bytes - size.bytes) as i64;
        }
        cost + if serves { opening(&sizes[class], purpose) } else { 0 }
    }

    fn planned(sizes: &[Size], purpose: Purpose) -> Plan {
        let plan = Plan::new(sizes.len(), |position| sizes[position].bytes, None).unwrap();
        assert!(plan.make(0, purpose, |position| sizes[position], || ()));
        plan.check();
        plan
    }

    #[test]
    fn no_set_of_classes_is_cheaper() {
        let mut seed = testkit::seed(3);
        for round in 0..400 {
            let spread = [1, 8, 60, 2000][round % 4];
            // The sizes have equal distances, or each size is twice the previous size, roughly as
            // for sizes above a page.
            let bytes =
                |nth: usize| if round % 3 == 0 { 8 << nth } else { nth * 8 * (1 + round % 5) };
            let sizes: Vec<Size> = (1..=10)
                .map(|nth| Size {
                    bytes: bytes(nth),
                    population: (random(&mut seed) % spread) as u32,
                    is_used: random(&mut seed).is_multiple_of(2),
                })
                .collect();
            for purpose in [Purpose::Growth, Purpose::Compaction] {
                let plan = planned(&sizes, purpose);
                let cost = |is_open: &dyn Fn(usize) -> bool| cost(&sizes, purpose, is_open);
                let least = (0..1u32 << 10).map(|set| cost(&|at| set >> at & 1 == 1)).min();
                assert_eq!(Some(cost(&|at| plan.is_open(at))), least, "{purpose:?} {sizes:?}");
            }
        }
    }

    #[test]
    fn large_pools_have_many_classes_and_small_ones_few() {
        let sizes = |population: u32| -> Vec<Size> {
            let size = |bytes| Size { bytes, population, is_used: true };
            (32..=4096).step_by(8).map(size).collect()
        };
        let opened = |plan: &Plan| -> Vec<usize> {
            (0..plan.class_for.len()).filter(|&position| plan.is_open(position)).collect()
        };
        let open = |population| opened(&planned(&sizes(population), Purpose::Compaction)).len();
        // With open classes p sizes apart and n objects of each size, a class costs `opening` plus
        // 8 n p^2 / 2 bytes for rounding. The sum over all classes is smallest at p = sqrt(2 *
        // opening / (8 n)).
        assert_eq!(open(10_000), 509);
        assert!((90..140).contains(&open(30)), "{}", open(30));
        assert_eq!(open(0), 38, "for objects yet unknown");
        let empty = Plan::new(509, |position| 32 + 8 * position, None).unwrap();
        assert_eq!(
            (empty.open(), opened(&empty)),
            (38, opened(&planned(&sizes(0), Purpose::Growth)))
        );
    }

    #[test]
    fn a_plan_is_outdated_when_the_pool_has_changed_by_an_eighth() {
        let plan = Plan::new(2, |position| 64 << position, None).unwrap();
        assert!(plan.is_outgrown(5) && !plan.is_outgrown(4) && !plan.is_too_large(0));
        plan.make(
            800,
            Purpose::Growth,
            |position| Size { bytes: 64 << position, ..Size::default() },
            || (),
        );
        assert!(plan.is_outgrown(901) && !plan.is_outgrown(900));
        assert!(plan.is_too_large(699) && !plan.is_too_large(700));
    }

    #[test]
    fn there_is_room_for_the_classes_of_any_order() {
        let table = crate::Geometry::Native { order: crate::ORDER_MAX }.table().unwrap();
        assert!(table.classes().len() <= CLASSES_MAX);
    }

    #[test]
    fn unknown_sizes_find_classes_an_eighth_apart() {
        let sizes: Vec<usize> = (32..=4096).step_by(8).collect();
        let plan = Plan::new(sizes.len(), |position| sizes[position], None).unwrap();
        plan.check();
        for (position, &bytes) in sizes.iter().enumerate() {
            let class = sizes[plan.class_for(position)];
            assert!(class < bytes + bytes / 8 + 8, "{bytes} goes to {class}");
        }
    }
}
