//! Compares random allocations, commits and releases with a naive model, and checks every byte
//! written.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use page::{Config, Error, ExtentId, Space, page_size};
use std::collections::BTreeMap;
use std::ops::Range;
use testkit::space::{Event, Setup, SpaceModel};
use testkit::supply::Refuse;
use testkit::{Model, Run, run_any, scaled, seed};

#[test]
fn random_operations_match_the_model() {
    for (nth, granule) in [1, 2, 16, 64].into_iter().enumerate() {
        println!("granule {granule}");
        let setup = Setup { granule, by_address: nth % 2 == 0, ..Setup::default() };
        let run = Run { seed: seed(nth as u64), steps: 10_000, first: 2000, every: 1000 };
        testkit::run::<SpaceModel>(setup, run);
    }
}

/// Tests random granules and limits, and refuses some requests for memory.
#[test]
fn any_space_matches_the_model() {
    (100..scaled(140, 1000)).for_each(|nth| _ = run_any::<SpaceModel>(nth as u64, 500));
}

#[test]
fn every_refusal_is_an_error_and_loses_nothing() {
    let seed = seed(9);
    for from_then_on in [false, true] {
        for nth in 1.. {
            let setup = Setup { refuse: Some(Refuse { nth, from_then_on }), ..Setup::default() };
            let run = Run { seed, steps: 120, first: 120, every: 120 };
            let requests = testkit::run::<SpaceModel>(setup, run).unwrap().requests;
            assert_eq!(requests.of_setup, 0);
            if requests.all < nth {
                assert!(nth > 20, "{nth} requests only");
                break;
            }
        }
    }
}

#[test]
fn the_limit_holds_for_part_of_a_range() {
    let setup = Setup { limit: Some(10), ..Setup::default() };
    let mut model = SpaceModel::new(&setup).unwrap();
    model.apply(&Event::Alloc { pages: 64, tag: 0 });
    model.apply(&Event::Commit { nth: 0, first: 0, count: 8 });
    let refused = model.space.charge(3).unwrap_err();
    assert_eq!(refused, Error::Limit { limit: 10, used: 8, wanted: 3 });
    model.apply(&Event::Commit { nth: 0, first: 4, count: 8 });
    model.check();
    model.apply(&Event::Commit { nth: 0, first: 4, count: 6 });
    assert_eq!(model.space.budget().used(), 10);
    model.finish();
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
        // Each of four tables initially takes one page: the sections, the bitmaps of the sections,
        // the descriptors, and the bitmap of the descriptors.
        let extents: Vec<_> = (0..256).map(|_| space.alloc(64, 0).unwrap()).collect();
        let tables = space.metadata_bytes() - (map + 4 * page);
        assert!(tables < 256, "{tables} bytes beside, for a section that is all used");
        // SAFETY: no thread uses the extent's addresses.
        extents.iter().for_each(|&id| unsafe { space.free(id) });
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
    // SAFETY: no thread uses the extent's addresses.
    freed.iter().for_each(|&id| unsafe { space.free(id) });
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
        // SAFETY: no thread uses the extent's addresses.
        .for_each(|id| unsafe { space.free(id) });
    space.check();
    // The descriptors of 12 bytes took 60,000 bytes, on 15 pages. Only one page with descriptors
    // remains.
    assert_eq!(space.live().count(), 50);
    assert!(space.metadata_bytes() <= full - 14 * page_size());
}

/// The bytes of a section.
const SECTION: u64 = 64 << 20;

/// The naive model of free address space: the used granules of each section.
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

    /// Returns the offset of the lowest run of free granules with space for `pages` pages, in
    /// sections with address space.
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
        // If the segment is new, the extent lies at the start of its first section.
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
        // SAFETY: no thread uses the extent's addresses.
        unsafe { self.space.free(id) };
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
    // Checks sections near the edges of the tree's groups and of words, and the last section.
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
            // The first segment has one section, and the second segment has two sections. Later
            // segments have more.
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
    // This offset is beyond the extent's pages, but in its last granule.
    assert_eq!(space.find(place(first, 31)), Some(first));
    assert_eq!(space.find(place(next, 16)), None);
    // SAFETY: no thread uses the extent's addresses.
    unsafe { space.free(first) };
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
        // SAFETY: no thread uses the extent's addresses.
        unsafe { space.free(id) };
    }
    space.check();
    assert_eq!(space.find(high), None);
    let again = space.alloc(1, 7).unwrap();
    assert_eq!((space.extent(again).tag(), space.extent(again).pages()), (7, 1));
    assert!(space.extent(again).start() < high);
    space.check();
}
