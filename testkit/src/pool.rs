//! A model of a pool with handles. The objects are compared with a map of expected contents.
//!
//! # Safety
//! A guard that exists during several events borrows the pool and the object's handle, which are
//! both in an `Arc`. The model keeps the `Arc` of the pool until the guard is dropped. The field
//! beside the guard keeps the `Arc` of the handle.
#![allow(unsafe_code)]

use crate::Choices;
use crate::contents::{shorter, stamped};
use crate::geometry::{self, Edges};
use crate::model::Model;
use crate::supply::{Refuse, Requests};
use page::{RefuseNth, page_size};
use std::collections::HashMap;
use std::sync::Arc;
use zsmalloc::{Config, Error, Handle, Pool, ReadGuard};

pub use zsmalloc::{ChainRule::*, Geometry, Geometry::*, KernelGeometry};

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub geometry: Geometry,
    pub refuse: Option<Refuse>,
}

/// An operation on the pool. `nth` is the position of an object among the current objects, modulo
/// their number.
#[derive(Clone, Debug)]
pub enum Event {
    Store {
        len: usize,
    },
    /// Stores an object of zeros.
    Malloc {
        len: usize,
    },
    /// Stores many objects of one length, so that zspages fill up.
    Many {
        len: usize,
        count: usize,
    },
    Write {
        nth: usize,
        len: usize,
    },
    Read {
        nth: usize,
    },
    Free {
        nth: usize,
    },
    /// Frees each object whose position is a multiple of `every`.
    FreeEvery {
        every: usize,
    },
    /// Tries every operation on the handle of an object that was freed.
    Stale {
        nth: usize,
    },
    Foreign,
    Flipped {
        nth: usize,
        bit: u32,
    },
    Invented {
        raw: u64,
    },
    /// Pins an object, which is read again when it is unpinned.
    Pin {
        nth: usize,
    },
    Unpin {
        nth: usize,
    },
    Compact,
    Shrink {
        bytes: usize,
    },
    Trim,
    /// Sets the limit to the used pages plus `above`, which may be negative.
    Limit {
        above: isize,
    },
    Unlimited,
    Statistics,
    /// Begins a phase, in which most events are of the given kind.
    Turn(Turn),
}

/// A phase determines the lengths of most objects, and so the open classes. A phase also determines
/// whether the number of objects rises or falls.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub shortest: usize,
    pub longest: usize,
    pub way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
    /// An event stores many objects, or frees many objects.
    Waves,
}
pub use Way::*;

/// The statistics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The counts of the pool's requests for memory.
    pub requests: Requests,
    /// The number of objects that were refused for lack of memory.
    pub refused: usize,
    /// The maximum number of objects.
    pub objects_max: usize,
    /// The number of pages that were freed by moving objects.
    pub compacted: u64,
}

/// A pinned object. The fields are dropped in their order, so the guard is dropped before the
/// handle.
struct Pinned {
    guard: ReadGuard<'static>,
    _handle: Arc<Handle>,
    raw: u64,
}

pub struct PoolModel {
    /// The pinned objects, which are dropped before the pool that they borrow.
    pins: Vec<Pinned>,
    pool: Arc<Pool>,
    supply: Option<Arc<RefuseNth>>,
    /// Whether pages may be refused for another reason than the limit.
    is_refusing: bool,
    /// Another pool, whose handles are foreign to `pool`. The other pool is created when it is
    /// needed.
    foreign: Option<Pool>,
    edges: Edges,
    contents: HashMap<u64, Vec<u8>>,
    /// The handles of the objects, in an order that only the events determine.
    live: Vec<u64>,
    dead: Vec<u64>,
    versions: u64,
    used_max: usize,
    turn: Turn,
    report: Report,
}

/// Returns the handle with the number `raw`. The model ensures that the handle is used correctly.
fn handle(raw: u64) -> Handle {
    Handle::from_raw(raw).expect("numbers of handles are not 0")
}

/// Returns a pool with few classes, which is created fast.
fn foreign_pool() -> Pool {
    let geometry = Kernel(KernelGeometry { chain: 1, ..KernelGeometry::default() });
    Pool::new(Config { geometry, ..Config::default() }).expect("nothing refuses its memory")
}

impl PoolModel {
    fn raw(&self, nth: usize) -> Option<u64> {
        self.live.get(nth % self.live.len().max(1)).copied()
    }

    /// Returns object `nth` if it is not pinned. A write or a free of a pinned object would block
    /// forever.
    fn unpinned(&self, nth: usize) -> Option<u64> {
        self.raw(nth).filter(|raw| self.pins.iter().all(|pinned| pinned.raw != *raw))
    }

    fn fresh(&mut self, len: usize) -> Vec<u8> {
        self.versions += 1;
        stamped(self.versions, len)
    }

    fn store(&mut self, len: usize, has_zeros: bool) {
        let bytes = if has_zeros { vec![0; len] } else { self.fresh(len) };
        let stored = if has_zeros { self.pool.malloc(len) } else { self.pool.store(&bytes) };
        let is_possible = (1..=self.pool.largest()).contains(&len);
        match stored {
            Ok(handle) => {
                assert!(is_possible, "{len} bytes were stored");
                let raw = handle.into_raw();
                let before = self.contents.insert(raw, bytes);
                assert!(before.is_none(), "{raw:#x} was given out twice");
                self.live.push(raw);
                self.report.objects_max = self.report.objects_max.max(self.live.len());
            }
            Err(Error::Size { size, max }) => {
                assert!(!is_possible && (size, max) == (len, self.pool.largest()));
            }
            Err(error) => {
                assert!(is_possible || self.is_refusing, "{len} bytes have an error of their own");
                assert!(self.is_refusing || error.is_limit(), "{error}");
                self.report.refused += 1;
            }
        }
    }

    fn write(&mut self, raw: u64, len: usize) {
        let object = self.contents[&raw].len();
        let len = len.min(object + 1);
        let bytes = self.fresh(len);
        let written = self.pool.write(&handle(raw), &bytes);
        if len > object {
            assert_eq!(written, Err(Error::Length { len, object }));
        } else {
            assert_eq!(written, Ok(()));
            self.contents.entry(raw).and_modify(|old| old[..len].copy_from_slice(&bytes));
        }
    }

    fn read(&self, raw: u64) {
        let handle = handle(raw);
        let read = self.pool.read(&handle).expect("the object is live");
        assert!(*read == self.contents[&raw], "{raw:#x} has other bytes");
    }

    fn free(&mut self, raw: u64) {
        self.read(raw);
        assert_eq!(self.pool.free(handle(raw)), Ok(()));
        self.contents.remove(&raw);
        self.live.retain(|live| *live != raw);
        self.dead.push(raw);
        self.expect_bad(raw);
    }

    /// Asserts that every operation with the handle `raw`, which belongs to no live object, is
    /// refused.
    fn expect_bad(&self, raw: u64) {
        let refused = Error::Handle { raw };
        if raw == 0 {
            assert_eq!(Handle::from_raw(raw), Err(refused));
        } else if !self.contents.contains_key(&raw) {
            assert_eq!(self.pool.read(&handle(raw)).err(), Some(refused));
            assert_eq!(self.pool.write(&handle(raw), &[]), Err(refused));
            assert_eq!(self.pool.write(&handle(raw), &[0xee; 9]), Err(refused));
            assert_eq!(self.pool.free(handle(raw)), Err(refused));
        }
    }

    fn use_foreign(&mut self) {
        let foreign = self.foreign.get_or_insert_with(foreign_pool);
        let raw = foreign.store(b"foreign").expect("nothing refuses its pages").into_raw();
        self.expect_bad(raw);
        let foreign = self.foreign.as_ref().expect("it was made above");
        assert_eq!(foreign.free(handle(raw)), Ok(()));
    }

    fn pin(&mut self, nth: usize) {
        let Some(raw) = self.raw(nth) else { return };
        // An object has at most 6 readers at a time, and `read` needs one of them.
        if self.pins.iter().filter(|pinned| pinned.raw == raw).count() >= 5 {
            return;
        }
        let handle = Arc::new(handle(raw));
        let guard = self.pool.read(&handle).expect("the object is live");
        // SAFETY: the guard borrows from two `Arc`s, so the borrowed values do not move. The `Arc`
        // of the handle is `_handle`, which is dropped after the guard. The `Arc` of the pool is in
        // `self`. The field `pins` of `self` is dropped before the pool, and is cleared before
        // `self` is taken apart.
        let guard = unsafe { std::mem::transmute::<ReadGuard<'_>, ReadGuard<'static>>(guard) };
        self.pins.push(Pinned { guard, _handle: handle, raw });
    }

    fn expect_pinned(&self, pinned: &Pinned) {
        let raw = pinned.raw;
        assert!(*pinned.guard == self.contents[&raw], "{raw:#x} changed while it was read");
    }

    /// Frees pages by moving objects: pages of `wanted` bytes in all, or as many pages as possible.
    fn compact(&mut self, wanted: Option<usize>) {
        let (before, total) = (self.pool.pages().used(), self.pool.pages_compacted());
        let freeable = self.pool.freeable();
        let freed = match wanted {
            Some(bytes) => self.pool.shrink(bytes),
            None => self.pool.compact(),
        };
        let used = self.pool.pages().used();
        // When classes with few objects are closed, a few more pages may be allocated than freed.
        let is_taken = freed == 0 && (before..before + 8).contains(&used);
        assert!(used == before - freed || is_taken, "{before} to {used}, {freed} freed");
        // A trim also frees pages, but these pages do not count as freed by compaction.
        let compacted = self.pool.pages_compacted();
        assert!(
            compacted <= total + freed as u64,
            "{total} to {compacted} freed by moves, {freed} in all ({wanted:?})"
        );
        let is_free_to_move = self.pins.is_empty() && !self.is_refusing && wanted != Some(0);
        if let (Kernel(_), true) = (self.pool.table().geometry(), is_free_to_move) {
            assert!(freed > 0 || freeable == 0, "{freeable} bytes were freeable");
        }
        self.pins.iter().for_each(|pinned| self.expect_pinned(pinned));
    }

    fn set_limit(&mut self, limit: Option<usize>) {
        self.pool.pages().set_limit(limit);
        self.used_max = self.pool.pages().used().max(limit.unwrap_or(usize::MAX));
    }

    fn expect_statistics(&self) {
        let classes = self.pool.classes();
        let sum: u64 = classes.iter().map(|stat| stat.obj_used).sum();
        let committed: u64 = classes.iter().map(|stat| stat.committed).sum();
        assert_eq!(sum as usize, self.contents.len());
        assert_eq!(committed as usize, self.pool.pages().used());
        assert!(self.pool.bytes() >= self.pool.pages().used() * page_size());
        self.pool.freeable();
    }

    fn draw_len(&self, choices: &mut Choices) -> usize {
        match choices.bool() {
            true => choices.within(self.turn.shortest..=self.turn.longest),
            false => self.edges.draw(choices),
        }
    }

    fn draw_turn(&self, choices: &mut Choices) -> Turn {
        let largest = self.pool.largest();
        let middle = choices.within(1..=largest);
        let widest = *choices.pick(&[0, 60, 400, largest]);
        let spread = choices.within(0..=widest);
        let shortest = middle.saturating_sub(spread).max(1);
        Turn {
            shortest,
            longest: (middle + spread).min(largest),
            way: *choices.pick(&[Up, Down, Waves]),
        }
    }

    fn draw_bad(&self, choices: &mut Choices, nth: usize) -> Event {
        match choices.below(4) {
            0 => Event::Stale { nth },
            1 => Event::Foreign,
            2 => Event::Flipped { nth, bit: choices.below(64) as u32 },
            _ => Event::Invented { raw: choices.u64() },
        }
    }

    fn draw_seldom(&self, choices: &mut Choices, nth: usize) -> Event {
        match choices.below(16) {
            0 | 1 => Event::Pin { nth },
            2 | 3 => Event::Unpin { nth },
            4 => Event::Compact,
            5 => Event::Shrink { bytes: choices.beside(&[0, page_size()], 1 << 24) },
            6 => Event::Shrink { bytes: 1 << choices.within(12..=20) },
            7 => Event::Trim,
            // Draws a limit that often refuses the next page or the page after the next.
            8 => Event::Limit { above: choices.beside(&[1, 3], 300) as isize - 1 },
            9 => Event::Limit { above: -(choices.below(64) as isize) },
            10 | 11 => Event::Unlimited,
            12 => Event::Statistics,
            13 | 14 => self.draw_bad(choices, nth),
            _ => Event::Turn(self.draw_turn(choices)),
        }
    }
}

impl Model for PoolModel {
    type Setup = Setup;
    type Event = Event;
    type Report = Report;

    fn setup(choices: &mut Choices) -> Setup {
        Setup { geometry: geometry::draw(choices), refuse: Refuse::draw(choices) }
    }

    fn new(setup: &Setup) -> Option<Self> {
        let is_refusing = setup.refuse.is_some_and(Refuse::refuses);
        let supply = setup.refuse.map(Refuse::supply);
        let pages = page::Config {
            supply: supply.clone().map(|supply| supply as Arc<dyn page::Supply>),
            ..page::Config::default()
        };
        let Ok(pool) = Pool::new(Config { geometry: setup.geometry, pages }) else {
            // All geometries are valid, so the creation fails only if memory is refused.
            assert!(is_refusing, "{setup:?}");
            return None;
        };
        let of_setup = supply.as_ref().map_or(0, |supply| supply.requests());
        let turn = Turn { shortest: 1, longest: pool.largest(), way: Waves };
        Some(PoolModel {
            pins: Vec::new(),
            edges: Edges::of(&pool.table()),
            pool: Arc::new(pool),
            supply,
            is_refusing,
            foreign: None,
            contents: HashMap::new(),
            live: Vec::new(),
            dead: Vec::new(),
            versions: 0,
            used_max: usize::MAX,
            turn,
            report: Report { requests: Requests { of_setup, all: 0 }, ..Report::default() },
        })
    }

    fn draw(&self, choices: &mut Choices) -> Event {
        let (stores, frees, waves) = match self.turn.way {
            Up => (18, 6, 2),
            Down => (6, 18, 2),
            Waves => (12, 9, 3),
        };
        let kinds = [(stores, 's'), (frees, 'f'), (waves, 'm'), (4, 'w'), (2, 'r'), (1, '?')];
        let kind = choices.weighted(&kinds);
        let nth = choices.below(self.live.len().max(1));
        match kind {
            's' if choices.one_in(12) => Event::Malloc { len: self.draw_len(choices) },
            's' => Event::Store { len: self.draw_len(choices) },
            'f' => Event::Free { nth },
            'm' if self.turn.way == Down || self.turn.way == Waves && choices.one_in(3) => {
                Event::FreeEvery { every: choices.within(2..=5) }
            }
            'm' => {
                let len = self.draw_len(choices).clamp(1, self.pool.largest());
                Event::Many { len, count: choices.within(1..=60) }
            }
            'w' => {
                let object = self.raw(nth).map_or(0, |raw| self.contents[&raw].len());
                Event::Write { nth, len: choices.beside(&[1, object], object + 1) }
            }
            'r' => Event::Read { nth },
            _ => self.draw_seldom(choices, nth),
        }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Store { len } => self.store(len, false),
            Event::Malloc { len } => self.store(len, true),
            Event::Many { len, count } => (0..count).for_each(|_| self.store(len, false)),
            Event::Write { nth, len } => {
                self.unpinned(nth).into_iter().for_each(|raw| self.write(raw, len));
            }
            Event::Read { nth } => self.raw(nth).into_iter().for_each(|raw| self.read(raw)),
            Event::Free { nth } => self.unpinned(nth).into_iter().for_each(|raw| self.free(raw)),
            Event::FreeEvery { every } => {
                let nths = (0..self.live.len()).step_by(every);
                let going: Vec<u64> = nths.filter_map(|nth| self.unpinned(nth)).collect();
                going.into_iter().for_each(|raw| self.free(raw));
            }
            Event::Stale { nth } => {
                let raw = self.dead.get(nth % self.dead.len().max(1)).copied();
                raw.into_iter().for_each(|raw| self.expect_bad(raw));
            }
            Event::Foreign => self.use_foreign(),
            Event::Flipped { nth, bit } => {
                self.raw(nth).into_iter().for_each(|raw| self.expect_bad(raw ^ 1 << bit));
            }
            Event::Invented { raw } => self.expect_bad(raw),
            Event::Pin { nth } => self.pin(nth),
            Event::Unpin { nth } => {
                if !self.pins.is_empty() {
                    let pinned = self.pins.swap_remove(nth % self.pins.len());
                    self.expect_pinned(&pinned);
                }
            }
            Event::Compact => self.compact(None),
            Event::Shrink { bytes } => self.compact(Some(bytes)),
            Event::Trim => {
                let before = self.pool.pages().used();
                let trimmed = self.pool.trim();
                assert_eq!(self.pool.pages().used(), before - trimmed);
            }
            Event::Limit { above } => {
                let used = self.pool.pages().used();
                self.set_limit(Some(used.saturating_add_signed(above)));
            }
            Event::Unlimited => self.set_limit(None),
            Event::Statistics => self.expect_statistics(),
            Event::Turn(turn) => self.turn = turn,
        }
        let used = self.pool.pages().used();
        assert!(used <= self.used_max, "{used} pages, and {} are allowed", self.used_max);
    }

    fn check(&mut self) {
        self.pool.check();
        assert_eq!(self.pool.len() as usize, self.contents.len());
        assert_eq!(self.live.len(), self.contents.len());
        self.live.iter().for_each(|raw| self.read(*raw));
        self.pins.iter().for_each(|pinned| self.expect_pinned(pinned));
    }

    fn finish(mut self) -> Report {
        self.pins.clear();
        while let Some(raw) = self.live.last().copied() {
            self.free(raw);
        }
        self.pool.trim();
        self.pool.check();
        let zspages: u64 = self.pool.classes().iter().map(|stat| stat.obj_allocated).sum();
        let left = (self.pool.pages().used(), zspages);
        assert_eq!(left, (0, 0), "pages and objects' places are left after all was freed");
        self.report.requests.all = self.supply.as_ref().map_or(0, |supply| supply.requests());
        self.report.compacted = self.pool.pages_compacted();
        self.report
    }

    fn simpler(event: &Event) -> Vec<Event> {
        match *event {
            Event::Store { len } => shorter(len).map(|len| Event::Store { len }).collect(),
            Event::Malloc { len } => vec![Event::Store { len }],
            Event::Many { len, count } => [1, count / 2, count - 1]
                .into_iter()
                .filter(|fewer| (1..count).contains(fewer))
                .map(|count| Event::Many { len, count })
                .chain(shorter(len).map(|len| Event::Many { len, count }))
                .collect(),
            Event::Write { nth, len } => shorter(len)
                .map(|len| Event::Write { nth, len })
                .chain((nth > 0).then_some(Event::Write { nth: 0, len }))
                .collect(),
            Event::Free { nth: 1.. } => vec![Event::Free { nth: 0 }],
            Event::Read { nth: 1.. } => vec![Event::Read { nth: 0 }],
            Event::Pin { nth: 1.. } => vec![Event::Pin { nth: 0 }],
            Event::Unpin { nth: 1.. } => vec![Event::Unpin { nth: 0 }],
            Event::Shrink { .. } => vec![Event::Compact],
            _ => vec![],
        }
    }
}
