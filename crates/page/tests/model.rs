//! Random extents, commits and releases against a naive model, which compares every byte written.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use page::{Config, Error, ExtentId, PageSet, RefuseNth, Space, page_size};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use testkit::seed;

/// What an extent should hold: the stamp of each page, `None` if the page is not committed.
type Model = BTreeMap<ExtentId, Vec<Option<u64>>>;

struct Subject {
    space: Space<()>,
    by_address: bool,
    model: Model,
    stamp: u64,
}

impl Subject {
    fn new(config: Config) -> Self {
        let by_address = config.by_address;
        Subject { space: Space::new(config).unwrap(), by_address, model: Model::new(), stamp: 0 }
    }

    fn offset(&self, id: ExtentId, page: u32) -> u64 {
        self.space.extent(id).start() + page as u64 * page_size() as u64
    }

    fn any(&self, random: &mut Rng) -> Option<ExtentId> {
        let len = self.model.len();
        (len > 0).then(|| *self.model.keys().nth(random.u32(..len as u32) as usize).unwrap())
    }

    fn range(&self, id: ExtentId, random: &mut Rng) -> Range<u32> {
        let pages = self.model[&id].len() as u32;
        let start = random.u32(..pages);
        start..start + 1 + random.u32(..pages - start)
    }

    fn alloc(&mut self, random: &mut Rng) -> Result<(), Error> {
        // Lengths at the edges of granules, the longest, any, and short ones.
        let pages = match random.u32(..8) {
            0 => [1, 2, 16, 64][random.usize(..4)] * random.u32(1..=4) + random.u32(..3) - 1,
            1 => 256 - random.u32(..2),
            2 => 1 + random.u32(..256),
            _ => 1 + random.u32(..16),
        };
        let pages = pages.clamp(1, 256);
        let id = self.space.alloc(pages, random.u32(..500))?;
        assert!(self.model.insert(id, vec![None; pages as usize]).is_none(), "{id:?} twice");
        Ok(())
    }

    fn commit(&mut self, id: ExtentId, range: Range<u32>) -> Result<(), Error> {
        let old = self.model[&id][range.start as usize..range.end as usize].to_vec();
        self.space.charge(old.iter().filter(|page| page.is_none()).count() as u32)?;
        for page in range {
            self.stamp += 1;
            let at = self.offset(id, page) + page_size() as u64 - 8;
            // SAFETY: the page was charged above, or before, and this thread alone uses the space.
            unsafe { self.space.write(at, &self.stamp.to_ne_bytes()) };
            self.model.get_mut(&id).unwrap()[page as usize] = Some(self.stamp);
        }
        Ok(())
    }

    fn release(&mut self, id: ExtentId, range: Range<u32>) {
        let set = <PageSet>::default();
        let pages = self.model.get_mut(&id).unwrap();
        for page in range {
            if pages[page as usize].take().is_some() {
                set.insert(page..page + 1);
            }
        }
        // SAFETY: this thread alone uses the space, and the model forgot the pages' stamps.
        assert_eq!(unsafe { self.space.release(id, &set) }.len(), set.len());
    }

    fn free(&mut self, id: ExtentId) {
        self.release(id, 0..self.model[&id].len() as u32);
        self.space.free(id);
        self.model.remove(&id);
    }

    fn step(&mut self, random: &mut Rng) -> Result<(), Error> {
        let Some(id) = self.any(random) else {
            return self.alloc(random);
        };
        let range = self.range(id, random);
        match random.u32(..10) {
            0..2 if self.model.len() < 400 => self.alloc(random)?,
            2..6 => self.commit(id, range)?,
            6..9 => self.release(id, range),
            _ => self.free(id),
        }
        Ok(())
    }

    fn check(&self) {
        self.space.check();
        let mut committed = 0;
        for (&id, pages) in &self.model {
            let extent = self.space.extent(id);
            assert_eq!(extent.pages() as usize, pages.len());
            let address = self.space.address(extent.start()).addr().get();
            let found = self.by_address.then_some(extent.start());
            assert_eq!(self.space.offset_of(address), found);
            for (page, &stamp) in pages.iter().enumerate() {
                let at = self.offset(id, page as u32) + page_size() as u64 - 8;
                // SAFETY: the page lies in a live extent, and this thread alone uses the space.
                let bytes = unsafe { self.space.bytes(at, 8) };
                assert_eq!(bytes, stamp.unwrap_or(0).to_ne_bytes(), "{id:?} page {page}");
                committed += usize::from(stamp.is_some());
            }
        }
        assert_eq!(self.space.budget().used(), committed);
    }
}

#[test]
fn random_operations_match_the_model() {
    for (nth, granule) in [1, 2, 16, 64].into_iter().enumerate() {
        println!("granule {granule}");
        let mut random = Rng::with_seed(seed(nth as u64));
        let by_address = nth % 2 == 0;
        let mut subject = Subject::new(Config { granule, by_address, ..Config::default() });
        for step in 0..10_000 {
            subject.step(&mut random).unwrap();
            if step < 2000 || step % 1000 == 0 {
                subject.check();
            }
        }
        while let Some(id) = subject.any(&mut random) {
            subject.free(id);
        }
        subject.check();
        assert_eq!(subject.space.budget().used(), 0);
    }
}

#[test]
fn every_refusal_is_an_error_and_loses_nothing() {
    let seed = seed(9);
    for from_then_on in [false, true] {
        for nth in 1.. {
            let supply = Arc::new(RefuseNth::new(nth, from_then_on));
            let mut subject =
                Subject::new(Config { supply: Some(supply.clone()), ..Config::default() });
            let mut random = Rng::with_seed(seed);
            let mut refused = 0;
            for _ in 0..120 {
                refused += usize::from(subject.step(&mut random).is_err());
                subject.check();
            }
            if refused == 0 {
                // A smaller segment replaces a large one that was refused.
                if supply.requests() < nth {
                    break;
                }
            }
        }
    }
}

#[test]
fn the_limit_holds_for_part_of_a_range() {
    let mut subject = Subject::new(Config { limit: Some(10), ..Config::default() });
    let id = subject.space.alloc(64, 0).unwrap();
    subject.model.insert(id, vec![None; 64]);
    subject.commit(id, 0..8).unwrap();
    let refused = subject.commit(id, 4..12).unwrap_err();
    assert_eq!(refused, Error::Limit { limit: 10, used: 8, wanted: 4 });
    subject.check();
    subject.commit(id, 4..10).unwrap();
    subject.free(id);
    subject.check();
}

#[test]
fn impossible_extents_are_refused() {
    let space = Space::<()>::new(Config::default()).unwrap();
    assert_eq!(space.alloc(0, 0), Err(Error::ExtentLength { pages: 0 }));
    assert_eq!(space.alloc(257, 0), Err(Error::ExtentLength { pages: 257 }));
    assert_eq!(space.find(0), None);
    assert_eq!(space.find(u64::MAX), None);
    assert_eq!(space.offset_of(4096), None);
}

#[test]
fn maps_are_as_small_as_granules_are_coarse() {
    let page = page_size();
    for (granule, map) in [(1, 16384 * 4), (16, 4096)] {
        let space = Space::<()>::new(Config { granule, ..Config::default() }).unwrap();
        // Four tables begin with a page each: sections and their bitmaps, descriptors and theirs.
        let extents: Vec<_> = (0..256).map(|_| space.alloc(64, 0).unwrap()).collect();
        let tables = space.metadata_bytes() - (map + 4 * page);
        assert!(tables < 256, "{tables} bytes beside, for a section that is all used");
        extents.iter().for_each(|&id| space.free(id));
        space.check();
        assert_eq!(space.metadata_bytes(), 3 * page + tables, "a section that is unused");
    }
}

#[test]
fn low_numbers_and_offsets_are_taken_first() {
    let space = Space::<()>::new(Config { granule: 16, ..Config::default() }).unwrap();
    let extents: Vec<_> = (0..5000).map(|_| space.alloc(10, 0).unwrap()).collect();
    let full = space.metadata_bytes();
    let mut random = Rng::with_seed(seed(5));
    let mut freed = extents.clone();
    random.shuffle(&mut freed);
    freed.truncate(4000);
    freed.sort();
    let mut offsets: Vec<_> = freed.iter().map(|&id| space.extent(id).start()).collect();
    offsets.sort();
    freed.iter().for_each(|&id| space.free(id));
    space.check();
    for (&id, &offset) in freed.iter().zip(&offsets).take(3000) {
        assert_eq!(space.alloc(10, 0), Ok(id));
        assert_eq!(space.extent(id).start(), offset);
    }
    space
        .live()
        .filter(|id| id.to_raw() > 50)
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|id| space.free(id));
    space.check();
    // The descriptors, 12 bytes each, took 60,000 bytes on 15 pages, of which one is left.
    assert_eq!(space.live().count(), 50);
    assert!(space.metadata_bytes() <= full - 14 * page_size());
}

/// The bytes of a section.
const SECTION: u64 = 64 << 20;

/// The naive model of where room is: which granules of each section are used.
struct Granules {
    space: Space<()>,
    granule: u32,
    sections: Vec<Vec<bool>>,
    extents: BTreeMap<u64, ExtentId>,
}

impl Granules {
    fn new(granule: u32) -> Self {
        let space = Space::new(Config { granule, ..Config::default() }).unwrap();
        Granules { space, granule, sections: Vec::new(), extents: BTreeMap::new() }
    }

    fn bytes(&self) -> u64 {
        self.granule as u64 * page_size() as u64
    }

    fn place(&self, start: u64, pages: u32) -> (usize, Range<usize>) {
        let first = (start % SECTION / self.bytes()) as usize;
        ((start / SECTION) as usize, first..first + pages.div_ceil(self.granule) as usize)
    }

    /// Returns the offset of the lowest free granules for `pages` pages, in sections with address
    /// space.
    fn lowest(&self, pages: u32) -> Option<u64> {
        let count = pages.div_ceil(self.granule) as usize;
        let is_there = |number: usize| self.space.try_address(number as u64 * SECTION).is_some();
        let sections = self.sections.iter().enumerate().filter(|&(number, _)| is_there(number));
        let mut found = sections.filter_map(|(number, section)| {
            let mut run = 0;
            let end = section.iter().position(|&used| {
                run = if used { 0 } else { run + 1 };
                run == count
            });
            Some(number as u64 * SECTION + (end? + 1 - count) as u64 * self.bytes())
        });
        found.next()
    }

    fn alloc(&mut self, pages: u32) -> u64 {
        let lowest = self.lowest(pages);
        let id = self.space.alloc(pages, 0).unwrap();
        let start = self.space.extent(id).start();
        let (number, granules) = self.place(start, pages);
        while self.sections.len() <= number {
            self.sections.push(vec![false; (SECTION / self.bytes()) as usize]);
        }
        // In a new segment the first section has room.
        assert!(lowest.is_none_or(|lowest| lowest == start), "{start:#x}, {lowest:x?} is lower");
        assert!(lowest.is_some() || start.is_multiple_of(SECTION), "{start:#x} in a new segment");
        let section = &mut self.sections[number][granules];
        assert!(section.iter().all(|&used| !used), "{start:#x} is used");
        section.fill(true);
        self.extents.insert(start, id);
        start
    }

    fn free(&mut self, start: u64) {
        let id = self.extents.remove(&start).unwrap();
        let (number, granules) = self.place(start, self.space.extent(id).pages());
        self.sections[number][granules].fill(false);
        self.space.free(id);
    }

    fn free_sections(&mut self, sections: Range<u64>) {
        let starts = self.extents.range(sections.start * SECTION..sections.end * SECTION);
        let starts: Vec<u64> = starts.map(|(&start, _)| start).collect();
        starts.into_iter().for_each(|start| self.free(start));
    }
}

#[test]
fn the_lowest_room_is_taken_in_whichever_section_it_is() {
    let all = 260;
    let mut granules = Granules::new(16);
    let extents = (all * SECTION / (256 * page_size() as u64)) as usize;
    (0..extents).for_each(|_| _ = granules.alloc(256));
    granules.space.check();
    // Sections around the edges of the tree's groups and of words, and the last one.
    for section in [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 255, 256, 257, all - 1] {
        for place in [0, 1, 31, 63] {
            let start = section * SECTION + place * SECTION / 64;
            granules.free(start);
            granules.space.check();
            assert_eq!(granules.alloc(200), start);
            assert_eq!(granules.alloc(33), start + 208 * page_size() as u64, "what is left of it");
            for page in [0, 208] {
                granules.free(start + page * page_size() as u64);
            }
            assert_eq!(granules.alloc(256), start);
        }
    }
    granules.space.check();
}

#[test]
fn segments_that_go_and_come_back_have_their_room() {
    let mut random = Rng::with_seed(seed(7));
    for granule in [1, 16] {
        let mut granules = Granules::new(granule);
        let sections = if granule == 1 { 6 } else { 70 };
        for round in 0..6 {
            while granules.sections.len() < sections || granules.extents.len() < sections * 30 {
                granules.alloc(random.u32(128..=256));
            }
            granules.space.check();
            // The first segment has one section, the second two; later ones have more.
            let first = random.u64(..sections as u64);
            let first = if round % 2 == 0 { [0, 1, 3][round / 2] } else { first };
            let last = if round == 5 { sections as u64 * 2 } else { first + random.u64(1..=32) };
            granules.free_sections(first..last);
            granules.space.check();
            for _ in 0..if granule == 1 { 40 } else { 400 } {
                let nth = random.usize(..granules.extents.len() + 1);
                let start = granules.extents.keys().nth(nth).copied();
                match start.filter(|_| random.bool()) {
                    Some(start) => granules.free(start),
                    None => _ = granules.alloc(random.u32(1..=256)),
                }
            }
            granules.space.check();
        }
        granules.free_sections(0..u64::MAX / SECTION);
        granules.space.check();
    }
}

#[test]
fn an_extent_takes_whole_granules() {
    let space = Space::<()>::new(Config { granule: 16, ..Config::default() }).unwrap();
    let first = space.alloc(17, 1).unwrap();
    let next = space.alloc(1, 2).unwrap();
    let place = |id, page: u64| space.extent(id).start() + page * page_size() as u64;
    assert_eq!(space.extent(first).pages(), 17);
    assert_eq!(place(next, 0), place(first, 32));
    // This is behind the extent's pages, but in its granules.
    assert_eq!(space.find(place(first, 31)), Some(first));
    assert_eq!(space.find(place(next, 16)), None);
    space.free(first);
    assert_eq!(space.find(place(first, 0)), None);
    space.check();
}

#[test]
fn address_space_is_reused_and_segments_come_and_go() {
    let space = Space::<()>::new(Config::default()).unwrap();
    let all: Vec<_> = (0..1200).map(|_| space.alloc(256, 0).unwrap()).collect();
    space.check();
    let high = space.extent(all[1199]).start();
    for &id in &all {
        space.free(id);
    }
    space.check();
    assert_eq!(space.find(high), None);
    let again = space.alloc(1, 7).unwrap();
    assert_eq!((space.extent(again).tag(), space.extent(again).pages()), (7, 1));
    assert!(space.extent(again).start() < high);
    space.check();
}
