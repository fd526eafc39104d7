//! A model of a table of entries, as in a device. The entries are compared with a map of expected
//! contents. Each entry has an object, a payload or nothing.

use crate::Choices;
use crate::contents::{shorter, stamped};
use crate::geometry::{self, Edges};
use crate::model::Model;
use crate::supply::{Refuse, Requests};
use page::RefuseNth;
use std::collections::HashMap;
use std::sync::Arc;
use zsmalloc::{Columns, Config, Content, EntryPool, Error, Old};

pub use zsmalloc::{ChainRule::*, Geometry, Geometry::*, KernelGeometry};

/// The number of entries.
pub const ENTRIES: u32 = 3000;
/// The number of entries in a leaf. Tests often use entries at the edges of leaves.
const LEAF: usize = 512;

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub geometry: Geometry,
    /// The highest value of the limit. The limit changes during a run. `None` means no limit.
    pub limit: Option<usize>,
    pub refuse: Option<Refuse>,
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Stores an object in new memory, or overwrites the old object if no new memory is available.
    Write {
        index: u32,
        len: usize,
        flags: u8,
    },
    /// Stores an object, and keeps the entry locked during the whole store.
    Store {
        index: u32,
        len: usize,
        flags: u8,
    },
    Payload {
        index: u32,
        payload: u64,
    },
    Flag {
        index: u32,
        flags: u8,
    },
    /// Creates an object and drops it without publishing it in the entry.
    Drop {
        index: u32,
        len: usize,
    },
    Read {
        index: u32,
    },
    Compact,
    Limit {
        pages: usize,
    },
    PastTheEnd,
    /// Sets whether most of the following events are stores.
    Fill(bool),
}

/// The statistics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The counts of the table's requests for memory.
    pub requests: Requests,
    /// The number of objects that were refused for lack of memory.
    pub refused: usize,
    pub objects_max: usize,
}

/// The contents of an entry.
#[derive(Clone, Debug)]
enum Entry {
    Object { bytes: Vec<u8>, flags: u8 },
    Payload(u64),
}

pub struct EntriesModel {
    pub pool: EntryPool,
    supply: Option<Arc<RefuseNth>>,
    is_refusing: bool,
    setup: Setup,
    edges: Edges,
    entries: HashMap<u32, Entry>,
    objects: usize,
    versions: u64,
    fills: bool,
    report: Report,
}

impl EntriesModel {
    fn expect_old(&self, index: u32, old: Old) {
        let expected = match self.entries.get(&index) {
            Some(Entry::Object { bytes, flags }) => {
                Old::Object { bytes: bytes.len(), flags: *flags }
            }
            Some(Entry::Payload(payload)) => Old::Inline(*payload),
            None => Old::Inline(0),
        };
        assert_eq!(old, expected, "what entry {index} had");
    }

    fn expect(&self, index: u32) {
        let guard = self.pool.read(index);
        let expected = match self.entries.get(&index) {
            Some(Entry::Object { bytes, flags }) => {
                Content::Object { bytes: &bytes[..], flags: *flags }
            }
            Some(Entry::Payload(payload)) => Content::Inline(*payload),
            None => Content::Inline(0),
        };
        assert!(guard.content() == expected, "entry {index} has something else");
    }

    fn set(&mut self, index: u32, entry: Entry) {
        let is_object = |entry: &Entry| matches!(entry, Entry::Object { .. });
        self.objects += usize::from(is_object(&entry));
        let old = self.entries.insert(index, entry);
        self.objects -= usize::from(old.as_ref().is_some_and(is_object));
        self.report.objects_max = self.report.objects_max.max(self.objects);
    }

    /// Records the result of a request. A refused request changes nothing.
    fn settle(&mut self, index: u32, done: Result<Old, Error>, entry: Entry) {
        match done {
            Ok(old) => {
                self.expect_old(index, old);
                self.set(index, entry);
            }
            Err(error) => {
                let may_be = self.is_refusing || self.setup.limit.is_some() && error.is_limit();
                assert!(may_be, "{error}");
                self.report.refused += 1;
                self.expect(index);
            }
        }
    }

    fn fresh(&mut self, len: usize) -> Vec<u8> {
        self.versions += 1;
        stamped(self.versions, len)
    }

    /// Stores an object in new memory, or overwrites the old object if no new memory is available.
    fn written(&self, index: u32, bytes: &[u8], flags: u8) -> Result<Old, Error> {
        match self.pool.stage(index, bytes) {
            Ok(staged) => Ok(self.pool.lock(index)?.replace(staged, flags)),
            Err(error) => self.pool.lock(index)?.overwrite(bytes, flags).map_err(|_| error),
        }
    }

    fn set_flags(&mut self, index: u32, flags: u8) {
        let Some(Entry::Object { flags: old, .. }) = self.entries.get_mut(&index) else { return };
        *old = flags;
        self.pool.lock(index).expect("there is such an entry").set_flags(flags);
    }

    pub fn report(&self) -> Report {
        self.report
    }

    /// Overwrites all objects. An object that is not longer than the old object needs no new memory
    /// (I6).
    pub fn overwrite_all(&mut self) {
        self.pool.pages().set_limit(Some(0));
        for index in 0..ENTRIES {
            let Some(Entry::Object { bytes, .. }) = self.entries.get(&index) else { continue };
            let bytes = self.fresh(bytes.len());
            let locked = self.pool.lock(index).expect("there is such an entry");
            assert!(locked.overwrite(&bytes, 3).is_ok(), "entry {index}");
            self.set(index, Entry::Object { bytes, flags: 3 });
        }
        self.check();
    }

    fn draw_index(choices: &mut Choices) -> u32 {
        let edges = [0, LEAF, 2 * LEAF, 3 * LEAF, 4 * LEAF, 5 * LEAF, ENTRIES as usize - 1];
        choices.beside(&edges, ENTRIES as usize - 1) as u32
    }
}

impl Model for EntriesModel {
    type Setup = Setup;
    type Event = Event;
    type Report = Report;

    fn setup(choices: &mut Choices) -> Setup {
        let geometry = geometry::draw(choices);
        let limit = choices.bool().then(|| choices.within(50..=1600));
        Setup { geometry, limit, refuse: Refuse::draw(choices) }
    }

    fn new(setup: &Setup) -> Option<Self> {
        let supply = setup.refuse.map(Refuse::supply);
        let is_refusing = setup.refuse.is_some_and(Refuse::refuses);
        let pages = page::Config {
            supply: supply.clone().map(|supply| supply as Arc<dyn page::Supply>),
            limit: setup.limit,
            ..page::Config::default()
        };
        let config = Config { geometry: setup.geometry, pages };
        let Ok(pool) = EntryPool::new(config, u64::from(ENTRIES), Columns::default()) else {
            assert!(is_refusing, "{setup:?}");
            return None;
        };
        let of_setup = supply.as_ref().map_or(0, |supply| supply.requests());
        Some(EntriesModel {
            edges: Edges::of(&pool.table()),
            pool,
            supply,
            is_refusing,
            setup: *setup,
            entries: HashMap::new(),
            objects: 0,
            versions: 0,
            fills: true,
            report: Report { requests: Requests { of_setup, all: 0 }, ..Report::default() },
        })
    }

    fn draw(&self, choices: &mut Choices) -> Event {
        let index = Self::draw_index(choices);
        let fills = self.fills || self.setup.limit.is_some();
        let (stores, clears) = if fills { (60, 20) } else { (20, 60) };
        let kinds = [(stores, 's'), (clears, 'c'), (5, 'm'), (8, 'd'), (10, 'r'), (1, '?')];
        match choices.weighted(&kinds) {
            's' => {
                let len = self.edges.draw_possible(choices);
                let flags = choices.below(16) as u8;
                match choices.one_in(4) {
                    true => Event::Store { index, len, flags },
                    false => Event::Write { index, len, flags },
                }
            }
            'c' => {
                let payload = if choices.bool() { 0 } else { choices.u64() >> 5 };
                Event::Payload { index, payload }
            }
            'm' => Event::Flag { index, flags: choices.below(16) as u8 },
            'd' => Event::Drop { index, len: self.edges.draw_possible(choices) },
            'r' => Event::Read { index },
            _ => match (choices.below(8), self.setup.limit) {
                (0..2, _) => Event::Compact,
                (2, _) => Event::PastTheEnd,
                // Draws a limit of any value, or a limit close to the used pages.
                (3..6, Some(most)) => {
                    let used = self.pool.pages().used();
                    let any = choices.within(most / 10..=most);
                    let pages = *choices.pick(&[any, used.saturating_sub(1), used, used + 1]);
                    Event::Limit { pages: pages.min(most) }
                }
                (3, None) => Event::Fill(choices.bool()),
                _ => Event::Read { index },
            },
        }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Write { index, len, flags } => {
                let bytes = self.fresh(len);
                let done = self.written(index, &bytes, flags);
                self.settle(index, done, Entry::Object { bytes, flags });
            }
            Event::Store { index, len, flags } => {
                let bytes = self.fresh(len);
                let done = self.pool.lock(index).and_then(|locked| locked.store(&bytes, flags));
                self.settle(index, done, Entry::Object { bytes, flags });
            }
            Event::Payload { index, payload } => {
                let done = self.pool.lock(index).map(|locked| locked.set_payload(payload));
                self.settle(index, done, Entry::Payload(payload));
            }
            Event::Flag { index, flags } => self.set_flags(index, flags),
            Event::Drop { index, len } => {
                let bytes = self.fresh(len);
                if let Err(error) = self.pool.stage(index, &bytes) {
                    let is_limited = self.setup.limit.is_some() && error.is_limit();
                    assert!(self.is_refusing || is_limited, "{error}");
                }
                self.expect(index);
            }
            Event::Read { index } => self.expect(index),
            Event::Compact => drop(self.pool.compact()),
            Event::Limit { pages } => self.pool.pages().set_limit(Some(pages)),
            Event::PastTheEnd => assert!(self.pool.lock(ENTRIES).is_err()),
            Event::Fill(fills) => self.fills = fills,
        }
        let used = self.pool.pages().used();
        assert!(self.setup.limit.is_none_or(|most| used <= most), "{used} pages");
        if self.is_refusing {
            self.pool.check();
        }
    }

    fn check(&mut self) {
        self.pool.check();
        (0..ENTRIES).for_each(|index| self.expect(index));
    }

    fn finish(mut self) -> Report {
        for index in 0..ENTRIES {
            if let Some(locked) = self.pool.lock_existing(index) {
                let old = locked.set_payload(0);
                self.expect_old(index, old);
                self.entries.remove(&index);
            }
        }
        let is_nothing = |entry: &Entry| matches!(entry, Entry::Payload(0));
        assert!(self.entries.values().all(is_nothing), "there are fewer entries than were written");
        self.pool.trim();
        self.pool.check();
        assert_eq!(self.pool.pages().used(), 0, "pages are left after all was freed");
        self.report.requests.all = self.supply.as_ref().map_or(0, |supply| supply.requests());
        self.report
    }

    fn simpler(event: &Event) -> Vec<Event> {
        match *event {
            Event::Write { index, len, flags } => {
                shorter(len).map(|len| Event::Write { index, len, flags }).collect()
            }
            Event::Store { index, len, flags } => {
                shorter(len).map(|len| Event::Store { index, len, flags }).collect()
            }
            Event::Payload { index, payload: 1.. } => vec![Event::Payload { index, payload: 0 }],
            _ => vec![],
        }
    }
}
