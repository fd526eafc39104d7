//! A model of a space: its extents are compared with the expected contents of their pages.

#![allow(unsafe_code)]

use crate::Choices;
use crate::model::Model;
use crate::supply::{Refuse, Requests};
use page::{Config, Error, ExtentId, PageSet, RefuseNth, Space, page_size};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub granule: u32,
    pub by_address: bool,
    /// The limit in pages.
    pub limit: Option<usize>,
    pub refuse: Option<Refuse>,
}

impl Default for Setup {
    fn default() -> Self {
        let Config { granule, by_address, limit, .. } = Config::default();
        Setup { granule, by_address, limit, refuse: None }
    }
}

/// An event refers to extent `nth`, modulo the number of extents. An event refers to at most
/// `count` pages of the extent from `first` on, and to at least one page.
#[derive(Clone, Debug)]
pub enum Event {
    Alloc { pages: u32, tag: u32 },
    Commit { nth: usize, first: u32, count: u32 },
    Release { nth: usize, first: u32, count: u32 },
    Free { nth: usize },
}

/// The maximum number of extents.
const EXTENTS: usize = 400;

pub struct SpaceModel {
    pub space: Space<()>,
    setup: Setup,
    supply: Option<Arc<RefuseNth>>,
    /// The stamps of each extent's pages; `None` if the page is not committed.
    extents: BTreeMap<ExtentId, Vec<Option<u64>>>,
    stamp: u64,
    report: Report,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub requests: Requests,
    pub refused: u64,
}

impl SpaceModel {
    fn offset(&self, id: ExtentId, page: u32) -> u64 {
        self.space.extent(id).start() + u64::from(page) * page_size() as u64
    }

    fn nth(&self, nth: usize) -> Option<ExtentId> {
        let len = self.extents.len();
        (len > 0).then(|| *self.extents.keys().nth(nth % len).unwrap())
    }

    /// Returns the pages of an extent to which an event refers.
    fn range(&self, nth: usize, first: u32, count: u32) -> Option<(ExtentId, Range<u32>)> {
        let id = self.nth(nth)?;
        let pages = self.extents[&id].len() as u32;
        let first = first % pages;
        Some((id, first..first + count.clamp(1, pages - first)))
    }

    fn alloc(&mut self, pages: u32, tag: u32) -> Result<(), Error> {
        let id = self.space.alloc(pages, tag)?;
        assert_eq!(self.space.extent(id).tag(), tag);
        assert!(self.extents.insert(id, vec![None; pages as usize]).is_none(), "{id:?} twice");
        Ok(())
    }

    fn commit(&mut self, id: ExtentId, range: Range<u32>) -> Result<(), Error> {
        let old = &self.extents[&id][range.start as usize..range.end as usize];
        self.space.charge(old.iter().filter(|page| page.is_none()).count() as u32)?;
        for page in range {
            self.stamp += 1;
            let at = self.offset(id, page) + page_size() as u64 - 8;
            // SAFETY: the page was charged above or earlier, and only this thread uses the space.
            unsafe { self.space.write(at, &self.stamp.to_ne_bytes()) };
            self.extents.get_mut(&id).unwrap()[page as usize] = Some(self.stamp);
        }
        Ok(())
    }

    fn release(&mut self, id: ExtentId, range: Range<u32>) {
        let mut set = <PageSet>::default();
        let pages = self.extents.get_mut(&id).unwrap();
        for page in range {
            if pages[page as usize].take().is_some() {
                set.insert(page..page + 1);
            }
        }
        // SAFETY: only this thread uses the space, and the model has removed the pages' stamps.
        assert_eq!(unsafe { self.space.release(id, &set) }.len(), set.len());
    }

    fn free(&mut self, id: ExtentId) {
        self.release(id, 0..self.extents[&id].len() as u32);
        // SAFETY: only this thread uses the space, and the model removes the extent.
        unsafe { self.space.free(id) };
        self.extents.remove(&id);
    }

    /// Checks the result of a request. A failed request must have had no effect.
    fn settle(&mut self, done: Result<(), Error>) {
        let Err(error) = done else { return };
        let is_limited = self.setup.limit.is_some() && matches!(error, Error::Limit { .. });
        assert!(is_limited || self.setup.refuse.is_some_and(Refuse::refuses), "{error}");
        self.report.refused += 1;
    }
}

impl Model for SpaceModel {
    type Setup = Setup;
    type Event = Event;
    type Report = Report;

    fn setup(choices: &mut Choices) -> Setup {
        Setup {
            granule: *choices.pick(&[1, 2, 16, 64]),
            by_address: choices.bool(),
            limit: choices.bool().then(|| choices.within(1..=2000)),
            refuse: Refuse::draw(choices),
        }
    }

    fn new(setup: &Setup) -> Option<Self> {
        let supply = setup.refuse.map(Refuse::supply);
        let config = Config {
            granule: setup.granule,
            by_address: setup.by_address,
            limit: setup.limit,
            supply: supply.clone().map(|supply| supply as Arc<dyn page::Supply>),
            ..Config::default()
        };
        let Ok(space) = Space::new(config) else {
            assert!(setup.refuse.is_some_and(Refuse::refuses), "{setup:?}");
            return None;
        };
        let of_setup = supply.as_ref().map_or(0, |supply| supply.requests());
        let report = Report { requests: Requests { of_setup, all: 0 }, refused: 0 };
        let extents = BTreeMap::new();
        Some(SpaceModel { space, setup: *setup, supply, extents, stamp: 0, report })
    }

    fn draw(&self, choices: &mut Choices) -> Event {
        let nth = choices.below(self.extents.len().max(1));
        let (kind, first) = (choices.below(10), choices.below(256) as u32);
        let pages = self.nth(nth).map_or(1, |id| self.extents[&id].len() as u32);
        let first = first % pages;
        let count = choices.within(1..=(pages - first) as usize) as u32;
        match kind {
            _ if self.extents.is_empty() => draw_alloc(choices),
            0..2 if self.extents.len() < EXTENTS => draw_alloc(choices),
            0..6 => Event::Commit { nth, first, count },
            6..9 => Event::Release { nth, first, count },
            _ => Event::Free { nth },
        }
    }

    fn apply(&mut self, event: &Event) {
        let done = match *event {
            Event::Alloc { pages, tag } => self.alloc(pages, tag),
            Event::Commit { nth, first, count } => match self.range(nth, first, count) {
                Some((id, range)) => self.commit(id, range),
                None => Ok(()),
            },
            Event::Release { nth, first, count } => {
                if let Some((id, range)) = self.range(nth, first, count) {
                    self.release(id, range);
                }
                Ok(())
            }
            Event::Free { nth } => {
                if let Some(id) = self.nth(nth) {
                    self.free(id);
                }
                Ok(())
            }
        };
        self.settle(done);
    }

    fn check(&mut self) {
        self.space.check();
        let mut committed = 0;
        for (&id, pages) in &self.extents {
            let extent = self.space.extent(id);
            assert_eq!(extent.pages() as usize, pages.len());
            let address = self.space.address(extent.start()).addr().get();
            let found = self.setup.by_address.then_some(extent.start());
            assert_eq!(self.space.offset_of(address), found);
            for (page, &stamp) in pages.iter().enumerate() {
                let at = self.offset(id, page as u32) + page_size() as u64 - 8;
                // SAFETY: the page lies in a live extent, and only this thread uses the space.
                let bytes = unsafe { self.space.bytes(at, 8) };
                assert_eq!(bytes, stamp.unwrap_or(0).to_ne_bytes(), "{id:?} page {page}");
                committed += usize::from(stamp.is_some());
            }
        }
        assert_eq!(self.space.budget().used(), committed);
    }

    fn finish(mut self) -> Report {
        while let Some(id) = self.nth(0) {
            self.free(id);
        }
        self.check();
        assert_eq!(self.space.budget().used(), 0);
        self.report.requests.all = self.supply.as_ref().map_or(0, |supply| supply.requests());
        self.report
    }

    fn simpler(event: &Event) -> Vec<Event> {
        match *event {
            Event::Alloc { pages: 2.., tag } => vec![Event::Alloc { pages: 1, tag }],
            Event::Commit { nth, first, count: 2.. } => {
                vec![Event::Commit { nth, first, count: 1 }]
            }
            Event::Release { nth, first, count: 2.. } => {
                vec![Event::Release { nth, first, count: 1 }]
            }
            _ => vec![],
        }
    }
}

/// Draws the allocation of an extent. Its length is near the edge of a granule, the maximum, any
/// length, or short.
fn draw_alloc(choices: &mut Choices) -> Event {
    let granule = *choices.pick(&[1, 2, 16, 64]);
    let pages = match choices.below(8) {
        0 => granule * choices.within(1..=4) + choices.below(3) - 1,
        1 => 256 - choices.below(2),
        2 => choices.within(1..=256),
        _ => choices.within(1..=16),
    };
    Event::Alloc { pages: pages.clamp(1, 256) as u32, tag: choices.below(500) as u32 }
}
