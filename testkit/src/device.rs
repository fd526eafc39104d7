//! A model of a device. The contents of the device are compared with an array of expected contents.

use crate::Choices;
use crate::contents::{Data, lower, shorter};
use crate::faulty::Faulty;
use crate::geometry;
use crate::model::Model;
use crate::shadow::Shadow;
use crate::supply::{Refuse, Requests};
use page::{RefuseNth, page_size};
use std::sync::Arc;
use zram::{
    Algorithm, BdStat, Compaction, Config, Damage, Device, Error, OrderStat, Recompress,
    SLOT_BYTES, SaveOptions, SaveTo, Selection,
};

pub use crate::contents::Data::*;
pub use Limits::*;
pub use zram::Which::{self, *};
pub use zsmalloc::{ChainRule::*, Geometry, Geometry::*, KernelGeometry};

/// The limits that events change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    Off,
    Pages,
    Total,
    Both,
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub disksize: usize,
    pub block: usize,
    pub algorithm: &'static str,
    pub geometry: Geometry,
    /// Whether access times and checksums are recorded.
    pub track_access: bool,
    pub checksums: bool,
    /// Whether the pool is compacted in the background, which makes the results depend on time.
    pub is_compacted: bool,
    pub limits: Limits,
    /// Whether many events process cold data: marking, recompression, write-back.
    pub is_cold: bool,
    /// The size in bytes of the store to which data are written back.
    pub store: Option<usize>,
    pub refuse: Option<Refuse>,
}

impl Setup {
    /// Returns a set-up with lz4, single slots, the native geometry, and no option enabled.
    pub fn new(disksize: usize) -> Self {
        Setup {
            disksize,
            block: SLOT_BYTES,
            algorithm: "lz4",
            geometry: Geometry::default(),
            track_access: false,
            checksums: false,
            is_compacted: false,
            limits: Limits::Off,
            is_cold: false,
            store: None,
            refuse: None,
        }
    }

    fn config(&self, supply: Option<Arc<RefuseNth>>, store: Option<Arc<Faulty>>) -> Config {
        let codec = |name| zcomp::by_name(name).expect("there is such a codec");
        let second = |name| Some(Algorithm::new(codec(name)));
        Config {
            block: self.block,
            algorithm: codec(self.algorithm),
            recompression: [second("lz4hc"), None, second("zstd")],
            geometry: self.geometry,
            track_access: self.track_access,
            checksums: self.checksums,
            compaction: if self.is_compacted { Compaction::Auto } else { Compaction::Manual },
            streams: Some(2),
            supply: supply.map(|supply| supply as Arc<dyn page::Supply>),
            backing: store.map(|store| store as Arc<dyn zram::Backing>),
            ..Config::new(self.disksize as u64).expect("there are codecs")
        }
    }
}

#[derive(Clone, Debug)]
pub enum Event {
    Write {
        at: usize,
        len: usize,
        data: Data,
    },
    /// Writes slots with contents of different kinds, from the beginning of a block on.
    Mixed {
        at: usize,
        slots: usize,
        stamp: u64,
    },
    Read {
        at: usize,
        len: usize,
    },
    Discard {
        at: usize,
        len: usize,
    },
    /// Makes requests past the end of the device, all of which must be refused.
    PastTheEnd {
        offset: u64,
        len: u16,
    },
    MarkIdle,
    Compact,
    Shrink {
        bytes: usize,
    },
    LimitPages(Option<u64>),
    /// Sets the limit of all memory, as a number of bytes above the memory of the empty device.
    LimitTotal(Option<u64>),
    Statistics,
    Recompress {
        which: Which,
        priority: usize,
    },
    WriteBack {
        which: Which,
    },
    /// Saves all contents, and restores them to a device with another block size.
    Save {
        block: usize,
    },
    /// Makes each n-th later operation of the store fail.
    FailEvery(u64),
    FailNth(u64),
    Mend,
}

/// The statistics of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The counts of the device's requests for memory.
    pub requests: Requests,
    /// The number of requests that failed for lack of memory.
    pub refused: u64,
    pub by_total: u64,
    /// The number of failed writes, as the device counts them.
    pub failed_writes: u64,
    /// The number of slots that recompression shrank.
    pub smaller: u64,
    pub smaller_in_the_end: u64,
    pub written_back: u64,
    /// The number of requests and jobs that failed because the store failed or was full.
    pub failed: u64,
    pub store: BdStat,
    pub blocks: Option<OrderStat>,
    /// The size of the pool's pages in bytes after all contents were discarded.
    pub left: u64,
}

const KINDS: [Which; 5] =
    [Which::All, Which::Idle, Which::Huge, Which::HugeIdle, Which::Incompressible];

pub struct DeviceModel {
    shadow: Shadow<Device>,
    setup: Setup,
    supply: Option<Arc<RefuseNth>>,
    store: Option<Arc<Faulty>>,
    /// Whether memory may be refused for another reason than a limit.
    is_refusing: bool,
    is_failing: bool,
    /// The number of bytes that the empty device uses.
    empty: u64,
    used_max: u64,
    total_max: u64,
    /// The number of events that were applied. Each event writes different contents.
    stamp: u64,
    report: Report,
}

impl DeviceModel {
    pub fn device(&self) -> &Device {
        &self.shadow.device
    }

    /// Runs `work`, which examines the device. The store does not fail during this call.
    fn soundly<R>(&mut self, work: impl FnOnce(&mut Shadow<Device>) -> R) -> R {
        let shadow = &mut self.shadow;
        match &self.store {
            Some(store) => store.soundly(|| work(shadow)),
            None => work(shadow),
        }
    }

    /// Records an error, and asserts that the error is possible in the current state.
    fn expect_refusal(&mut self, error: &Error) {
        match error {
            Error::OutOfMemory { source, total_limit, .. } => {
                let by_limit = match self.setup.limits {
                    Limits::Off => false,
                    Limits::Pages => source.is_limit(),
                    Limits::Total | Limits::Both => source.is_limit() || total_limit.is_some(),
                };
                assert!(by_limit || self.is_refusing, "{error}");
                assert_eq!(error.errno(), 12);
                self.report.refused += 1;
                self.report.by_total += u64::from(total_limit.is_some());
            }
            Error::Backing { .. } => {
                assert!(self.is_failing && error.errno() == 5, "{error}");
                self.report.failed += 1;
            }
            error => panic!("{error}"),
        }
    }

    /// If a write is refused, the slots before the slot in the error must hold the new bytes. All
    /// later slots must hold the old bytes.
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let old = self.shadow.bytes[at..at + bytes.len()].to_vec();
        let written = self.device().write(at as u64, bytes);
        let written = self.soundly(|shadow| shadow.settle(at, bytes, written));
        let Err(error) = written else { return };
        if let Error::OutOfMemory { slot, .. } | Error::Backing { slot, .. } = error {
            let done = (slot as usize * SLOT_BYTES).saturating_sub(at).min(bytes.len());
            let found = &self.shadow.bytes[at..at + bytes.len()];
            assert!(found[..done] == bytes[..done], "slots before {slot} are old");
            assert!(found[done..] == old[done..], "slots from {slot} on are new");
        }
        self.expect_refusal(&error);
    }

    fn discard(&mut self, at: usize, len: usize) {
        let old = self.shadow.bytes[at..at + len].to_vec();
        let discarded = self.device().discard(at as u64, len as u64);
        let discarded = self.soundly(|shadow| shadow.settle(at, &vec![0; len], discarded));
        if let Err(error) = discarded {
            let is_whole = at.is_multiple_of(SLOT_BYTES) && len.is_multiple_of(SLOT_BYTES);
            let has_blocks = self.setup.block > SLOT_BYTES;
            assert!(has_blocks || !is_whole, "to free a whole slot needs no memory: {error}");
            self.expect_refusal(&error);
            self.expect_freed(at, &old, &error);
        }
    }

    /// Checks a range that held `old`, after a request to zero the range failed with `error`. The
    /// device first frees whole slots. After that, the device writes parts of other slots, in
    /// order. In a block that the range covers only in part, a free of whole slots can fail. The
    /// error then contains one of these slots, and no part is written.
    fn expect_freed(&self, at: usize, old: &[u8], error: &Error) {
        let Error::OutOfMemory { slot: named, .. } = *error else { return };
        let (named, end) = (named as usize * SLOT_BYTES, at + old.len());
        let is_whole = |slot: usize| at <= slot && slot + SLOT_BYTES <= end;
        let is_block_whole = |slot: usize| {
            let block = slot / self.setup.block * self.setup.block;
            at <= block && (block + self.setup.block).min(self.shadow.bytes.len()) <= end
        };
        for slot in (at / SLOT_BYTES * SLOT_BYTES..end).step_by(SLOT_BYTES) {
            let range = slot.max(at)..(slot + SLOT_BYTES).min(end);
            let is_new = match (is_whole(slot), is_whole(named)) {
                (false, false) => slot < named,
                (false, true) => false,
                (true, true) if slot == named => false,
                // The slot in the error may be another slot of the block that was not freed.
                (true, true) if !is_block_whole(slot) => continue,
                (true, _) => true,
            };
            let found = &self.shadow.bytes[range.clone()];
            let is_right = match is_new {
                true => found.iter().all(|byte| *byte == 0),
                false => *found == old[range.start - at..range.end - at],
            };
            assert!(is_right, "{range:?}, and is to be new: {is_new}; {named} is named");
        }
    }

    fn read(&mut self, at: usize, len: usize) {
        let mut back = vec![0xee; len];
        match self.device().read(at as u64, &mut back) {
            Ok(()) => {
                let expected = &self.shadow.bytes[at..at + len];
                let differs = back.iter().zip(expected).position(|(found, byte)| found != byte);
                assert_eq!(differs, None, "{len} bytes at {at} differ from that one on");
            }
            Err(error) => {
                let Error::Backing { slot, .. } = error else { panic!("{error}") };
                let end = (at + len).div_ceil(SLOT_BYTES);
                assert!((at / SLOT_BYTES..end).contains(&(slot as usize)), "{error}");
                self.expect_refusal(&error);
            }
        }
    }

    fn expect_refused(&self, offset: u64, len: u16) {
        let offset = offset.max((self.shadow.bytes.len() as u64 + 1).saturating_sub(len.into()));
        let refused = |done| assert!(matches!(done, Err(Error::Range { .. })), "{done:?}");
        refused(self.device().write(offset, &vec![7; len.into()]));
        refused(self.device().read(offset, &mut vec![7; len.into()]));
        refused(self.device().discard(offset, len.into()));
        refused(self.device().discard(offset, u64::MAX - u64::from(len)));
    }

    /// Frees pages by moving objects: pages of `wanted` bytes in all, or as many pages as possible.
    fn compact(&self, wanted: Option<usize>) {
        let page = page_size() as u64;
        let used = || self.device().mm_stat().mem_used_total;
        let before = used();
        let freed = match wanted {
            Some(bytes) => self.device().shrink(bytes),
            None => self.device().compact(),
        };
        let (freed, after) = (freed as u64 * page, used());
        // When classes with few objects are closed, a zspage may be allocated for their objects,
        // without a zspage being freed. A block that is stored again can take a new zspage, and can
        // free zspages that are not counted.
        let classes = self.device().classes();
        let in_use = classes.iter().filter(|class| class.obj_allocated > 0);
        let taken = in_use.map(|class| class.shape.pages as u64).max().unwrap_or(0) * page;
        let is_stored_anew = self.setup.block > SLOT_BYTES && after + freed <= before + taken;
        let is_taken = freed == 0 && (before..=before + taken).contains(&after);
        let is_right = after + freed == before || is_taken || is_stored_anew;
        assert!(is_right || self.setup.is_compacted, "{before} to {after}, {freed} freed");
    }

    fn limit_pages(&mut self, limit: Option<u64>) {
        self.device().set_mem_limit(limit);
        let used = self.device().mm_stat().mem_used_total;
        // If the used memory exceeds the limit, it can only decrease after this event.
        let limit = limit.map_or(u64::MAX, |bytes| bytes.next_multiple_of(page_size() as u64));
        self.used_max = limit.max(used);
    }

    fn limit_total(&mut self, limit: Option<u64>) {
        let limit = limit.map(|above| self.empty + above);
        self.device().set_total_limit(limit);
        // Above the limit, no memory is granted, except for the store's short list of readers.
        let unasked = self.setup.store.map_or(0, |_| 512);
        let at_most = self.device().mem_total() + unasked;
        self.total_max = limit.unwrap_or(u64::MAX).max(at_most);
    }

    fn expect_statistics(&self) {
        let stat = self.device().mm_stat();
        assert!(stat.mem_used_max >= stat.mem_used_total);
        assert!(self.device().mem_total() >= stat.mem_used_total);
        self.device().reset_mem_used_max();
        let _ = self.device().freeable();
        let stored = self.device().block_state().count() as u64;
        assert_eq!(stat.orig_data_size, stored * SLOT_BYTES as u64);
        // Dead slots of a block are counted, too.
        let huge = self.device().block_state().filter(|of| of.is_huge).count() as u64;
        let dead = self.device().order_stats().pop().map_or(0, |of| of.dead_slots);
        assert!((huge..=huge + dead).contains(&stat.huge_pages), "{huge}, {dead}: {stat:?}");
    }

    fn recompress(&mut self, which: Which, priority: usize) {
        let selection = Selection::of(which);
        let how = Recompress { selection, priority, ..Recompress::default() };
        match self.device().recompress(&how) {
            Ok(done) => {
                assert_eq!(done.touched, 0, "nobody else is at work");
                self.report.smaller += done.smaller;
            }
            Err(error) => self.expect_refusal(&error),
        }
    }

    /// Recompresses all slots. First writes data that the second codec compresses better than the
    /// first codec.
    fn recompress_all(&mut self) {
        let before = self.report.smaller;
        let len = self.setup.block.min(self.shadow.bytes.len());
        self.apply(&Event::Write { at: 0, len, data: Letters(self.stamp) });
        self.apply(&Event::Recompress { which: Which::All, priority: 3 });
        self.check();
        self.report.smaller_in_the_end = self.report.smaller - before;
    }

    fn write_back(&mut self, which: Which) {
        match self.device().write_back(&Selection::of(which)) {
            Ok(done) => self.report.written_back += done.slots,
            Err(Error::BackingFull) => self.report.failed += 1,
            Err(error) => {
                assert!(error.to_string().contains("stays in memory"), "{error}");
                self.expect_refusal(&error);
            }
        }
    }

    fn save(&mut self, block: usize) {
        let setup = Setup { block, ..Setup::new(self.setup.disksize) };
        self.soundly(|shadow| {
            let mut file = Vec::new();
            let saved = shadow.device.save(SaveTo::Writer(&mut file), &SaveOptions::default());
            saved.expect("all can be read");
            let other = Device::new(setup.config(None, None)).expect("nothing refuses it memory");
            other.restore_from(&mut &file[..], Damage::Refuse).expect("all was saved");
            Shadow { device: other, base: 0, bytes: shadow.bytes.clone() }.check();
        });
    }

    fn fail(&mut self, fail: impl Fn(&Faulty)) {
        if let Some(store) = &self.store {
            store.fail_every(0);
            store.fail_nth(0);
            fail(store);
            self.is_failing = true;
        }
    }

    /// Draws whole slots, a block, a range at the edge of a slot or block, or a short range.
    fn draw_range(&self, choices: &mut Choices) -> (usize, usize) {
        let (block, end) = (self.setup.block, self.shadow.bytes.len());
        let slot = choices.below(end / SLOT_BYTES) * SLOT_BYTES;
        let (at, len) = match choices.below(8) {
            0 | 1 => (slot, SLOT_BYTES * choices.within(1..=4)),
            2 => (slot / block * block, block),
            3 => {
                let edges = [SLOT_BYTES, 2 * SLOT_BYTES, block, 2 * block];
                let at = slot + choices.beside(&[1, SLOT_BYTES], SLOT_BYTES);
                (at, choices.beside(&edges, 3 * block))
            }
            // A range that ends at an edge, or a few bytes from the edge.
            4 => {
                let at = slot + choices.beside(&[1, SLOT_BYTES], SLOT_BYTES);
                let end = (at + 1).next_multiple_of(*choices.pick(&[SLOT_BYTES, block]));
                (at, choices.beside(&[1, 8, end - at], end - at + 8))
            }
            5 => (slot + choices.beside(&[1, SLOT_BYTES], SLOT_BYTES), choices.within(0..=64)),
            _ => {
                let (from, to) = (self.draw_point(choices), self.draw_point(choices));
                let longest = *choices.pick(&[
                    16,
                    SLOT_BYTES,
                    3 * SLOT_BYTES,
                    16 * SLOT_BYTES,
                    3 * block + SLOT_BYTES,
                ]);
                (from.min(to), from.abs_diff(to).min(longest))
            }
        };
        let at = at.min(end);
        (at, len.min(end - at))
    }

    /// Draws an offset, often at the edge of a slot or a block, or just after such an edge.
    fn draw_point(&self, choices: &mut Choices) -> usize {
        let end = self.shadow.bytes.len();
        let unit = *choices.pick(&[1, SLOT_BYTES, self.setup.block]);
        let beside = *choices.pick(&[0, 0, 0, 1, 7, SLOT_BYTES - 1]);
        (choices.within(0..=end) / unit * unit + beside).min(end)
    }

    /// Draws a limit in bytes, or no limit. Most limits are near the edge of a page, and some
    /// limits refuse the next page.
    fn draw_limit(&self, choices: &mut Choices, used: u64) -> Option<u64> {
        let page = page_size();
        match choices.below(4) {
            0 => None,
            1 => {
                let used = used as usize;
                Some(choices.beside(&[1, used, used + page], used + (1 << 20)) as u64)
            }
            _ => {
                let pages = choices.within(1..=(self.setup.disksize / page / 2).max(1));
                Some((pages * page + choices.pick(&[0, 0, 1, page - 1])) as u64)
            }
        }
    }

    fn draw_limits(&self, choices: &mut Choices) -> Event {
        let is_total = match self.setup.limits {
            Limits::Off => return Event::Statistics,
            Limits::Pages => false,
            Limits::Total => true,
            Limits::Both => choices.bool(),
        };
        match is_total {
            true => {
                let used = self.device().mem_total().saturating_sub(self.empty);
                Event::LimitTotal(self.draw_limit(choices, used))
            }
            false => {
                let used = self.device().mm_stat().mem_used_total;
                Event::LimitPages(self.draw_limit(choices, used))
            }
        }
    }

    fn draw_cold(&self, choices: &mut Choices) -> Event {
        let which = *choices.pick(&KINDS);
        match choices.below(6) {
            0 | 1 => Event::MarkIdle,
            2 => Event::Compact,
            _ if self.store.is_some() && !choices.one_in(3) => Event::WriteBack { which },
            _ => Event::Recompress { which, priority: *choices.pick(&[1, 3]) },
        }
    }

    fn draw_seldom(&self, choices: &mut Choices) -> Event {
        let which = *choices.pick(&KINDS);
        match choices.below(12) {
            0 => Event::PastTheEnd { offset: choices.u64(), len: choices.below(1 << 16) as u16 },
            1 => Event::MarkIdle,
            2 => Event::Compact,
            3 => Event::Shrink { bytes: choices.beside(&[0, page_size()], 1 << 20) },
            4..7 => self.draw_limits(choices),
            7 => Event::Statistics,
            8 => Event::Recompress { which, priority: *choices.pick(&[1, 3]) },
            9 if self.store.is_some() => Event::WriteBack { which },
            10 if self.store.is_some() => match choices.below(4) {
                0 => Event::FailEvery(choices.within(1..=100) as u64),
                1 => Event::FailNth(choices.within(1..=100) as u64),
                _ => Event::Mend,
            },
            11 if choices.one_in(4) => Event::Save { block: SLOT_BYTES << choices.below(5) },
            _ => Event::MarkIdle,
        }
    }
}

impl Model for DeviceModel {
    type Setup = Setup;
    type Event = Event;
    type Report = Report;

    fn setup(choices: &mut Choices) -> Setup {
        let geometry = geometry::draw(choices);
        let refuse = Refuse::draw(choices);
        let algorithm = choices.pick(zcomp::codecs()).name();
        let block = SLOT_BYTES << choices.below(5);
        let edges = [SLOT_BYTES, block, 2 * block, 48 * SLOT_BYTES];
        let disksize = choices.beside(&edges, 48 * SLOT_BYTES).max(1);
        Setup {
            block,
            algorithm,
            geometry,
            refuse,
            track_access: choices.bool(),
            checksums: choices.bool(),
            is_cold: choices.bool(),
            limits: *choices.pick(&[Limits::Off, Limits::Pages, Limits::Total, Limits::Both]),
            store: choices.one_in(4).then(|| choices.within(1..=96) * SLOT_BYTES),
            ..Setup::new(disksize)
        }
    }

    fn new(setup: &Setup) -> Option<Self> {
        let supply = setup.refuse.map(Refuse::supply);
        let is_refusing = setup.refuse.is_some_and(Refuse::refuses);
        let store = setup.store.map(|bytes| Arc::new(Faulty::new(bytes)));
        let shadow = match Shadow::new(setup.config(supply.clone(), store.clone())) {
            Ok(shadow) => shadow,
            Err(error) => {
                assert!(is_refusing && error.errno() == 12, "{error}");
                return None;
            }
        };
        let of_setup = supply.as_ref().map_or(0, |supply| supply.requests());
        Some(DeviceModel {
            empty: shadow.device.mem_total() + (64 << 10),
            shadow,
            setup: *setup,
            supply,
            store,
            is_refusing,
            is_failing: false,
            used_max: u64::MAX,
            total_max: u64::MAX,
            stamp: 0,
            report: Report { requests: Requests { of_setup, all: 0 }, ..Report::default() },
        })
    }

    fn draw(&self, choices: &mut Choices) -> Event {
        let cold = if self.setup.is_cold { 12 } else { 0 };
        let kinds = [(10, 'w'), (2, 'm'), (7, 'r'), (5, 'd'), (3, '?'), (cold, 'c')];
        let kind = choices.weighted(&kinds);
        match kind {
            'c' => return self.draw_cold(choices),
            '?' => return self.draw_seldom(choices),
            _ => {}
        }
        let (at, len) = self.draw_range(choices);
        match kind {
            'w' if self.setup.is_cold && choices.bool() => {
                Event::Write { at, len, data: Letters(self.stamp) }
            }
            'w' => Event::Write { at, len, data: Data::draw(choices, self.stamp) },
            'm' => {
                let block = self.setup.block;
                let at = at.min(self.shadow.bytes.len() - 1) / block * block;
                let slots = block.min(self.shadow.bytes.len() - at) / SLOT_BYTES;
                Event::Mixed { at, slots, stamp: self.stamp }
            }
            'r' => Event::Read { at, len },
            _ => Event::Discard { at, len },
        }
    }

    fn apply(&mut self, event: &Event) {
        self.stamp += 1;
        match *event {
            Event::Write { at, len, data } => self.write(at, &data.bytes(len)),
            Event::Mixed { at, slots, stamp } => {
                let mut choices = Choices::seeded(stamp);
                let stamps = (0..slots as u64).map(|slot| stamp << 8 | slot);
                let kinds = stamps.map(|stamp| Data::draw(&mut choices, stamp));
                let bytes: Vec<u8> = kinds.flat_map(|data| data.bytes(SLOT_BYTES)).collect();
                self.write(at, &bytes);
            }
            Event::Read { at, len } => self.read(at, len),
            Event::Discard { at, len } => self.discard(at, len),
            Event::PastTheEnd { offset, len } => self.expect_refused(offset, len),
            Event::MarkIdle => {
                if let Err(error) = self.device().mark_idle() {
                    self.expect_refusal(&error);
                }
            }
            Event::Compact => self.compact(None),
            Event::Shrink { bytes } => self.compact(Some(bytes)),
            Event::LimitPages(limit) => self.limit_pages(limit),
            Event::LimitTotal(limit) => self.limit_total(limit),
            Event::Statistics => self.expect_statistics(),
            Event::Recompress { which, priority } => self.recompress(which, priority),
            Event::WriteBack { which } => self.write_back(which),
            Event::Save { block } => self.save(block),
            Event::FailEvery(every) => self.fail(|store| store.fail_every(every)),
            Event::FailNth(nth) => self.fail(|store| store.fail_nth(nth)),
            Event::Mend => {
                self.fail(|_| {});
                self.is_failing = false;
            }
        }
        let (used, total) = (self.device().mm_stat().mem_used_total, self.device().mem_total());
        assert!(used <= self.used_max, "{used} bytes of pages, {} may be", self.used_max);
        // A memory request of the background thread counts as used until it is refused.
        let asked = if self.setup.is_compacted { 16 * page_size() as u64 } else { 0 };
        let most = self.total_max.saturating_add(asked);
        assert!(total <= most, "{total} bytes, {most} may be");
    }

    fn check(&mut self) {
        self.soundly(|shadow| shadow.check());
    }

    fn finish(mut self) -> Report {
        self.apply(&Event::Mend);
        if self.setup.is_cold {
            self.recompress_all();
        }
        self.report.failed_writes = self.device().io_stat().failed_writes;
        self.report.store = self.device().bd_stat();
        self.report.blocks = self.device().order_stats().pop();
        // A discard of all contents needs no memory, so it succeeds at any limit.
        self.device().set_mem_limit(Some(0));
        let len = self.shadow.bytes.len();
        self.device().discard(0, len as u64).expect("whole slots and blocks");
        self.shadow.bytes.fill(0);
        self.check();
        let stat = self.device().mm_stat();
        assert_eq!((stat.orig_data_size, stat.compr_data_size, stat.same_pages), (0, 0, 0));
        assert_eq!(self.device().bd_stat().bd_count, 0, "something is left in the store");
        let dead = self.device().order_stats().pop().map_or(0, |of| of.dead_slots);
        assert_eq!(dead, 0, "slots are left in blocks");
        self.report.left = stat.mem_used_total;
        self.report.requests.all = self.supply.as_ref().map_or(0, |supply| supply.requests());
        self.report
    }

    fn simpler(event: &Event) -> Vec<Event> {
        match *event {
            Event::Write { at, len, data } => data
                .simpler()
                .into_iter()
                .map(|data| Event::Write { at, len, data })
                .chain(shorter(len).map(|len| Event::Write { at, len, data }))
                .chain(lower(at, SLOT_BYTES).map(|at| Event::Write { at, len, data }))
                .collect(),
            Event::Mixed { at, slots, stamp } => {
                let data = Data::Noise(stamp);
                vec![Event::Write { at, len: slots * SLOT_BYTES, data }]
            }
            Event::Read { at, len } => shorter(len).map(|len| Event::Read { at, len }).collect(),
            Event::Discard { at, len } => {
                shorter(len).map(|len| Event::Discard { at, len }).collect()
            }
            Event::Shrink { .. } => vec![Event::Compact],
            _ => vec![],
        }
    }
}
