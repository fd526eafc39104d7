//! A model of a region. The region's bytes are compared with an array of expected contents.
//!
//! # Safety
//! A [`Subject`] outlives the locks and the second thread that refer to it. Only the model's thread
//! changes the region's bytes, through the subject's [`Mirror`].
#![allow(unsafe_code)]

mod company;
mod event;
mod mirror;
mod setup;
mod wrong_codec;

use crate::Choices;
use crate::child::Child;
use crate::contents::Data;
use crate::model::Model;
use company::Company;
use mirror::Mirror;
use setup::Memory;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use zmem::{Error, Locked, Region};

pub use crate::contents::Data::*;
pub use Limit::*;
pub use company::Work::{self, *};
pub use event::{Event, Limit};
pub use setup::{BACKENDS, Setup};
pub use zmem::Advice::{self, *};
pub use zmem::BackendKind::{self, *};
pub use zmem::BlockOrder::{self, *};

const PAGE: usize = 4096;
const CHUNK: usize = 2 << 20;
/// The maximum number of locks of a block.
const LOCKS_MAX: usize = 65_535;
/// The maximum number of locks held at a time, without those of `LockOften`.
const LOCKS: usize = 12;

/// The statistics of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub first_touches: u64,
    pub kept: u64,
    pub filled: u64,
    pub in_place: u64,
    pub marked: u64,
    pub evicted: u64,
    pub zeros: u64,
    pub stolen: u64,
    pub incompressible: u64,
    /// The number of children.
    pub children: u64,
    /// The number of requests that were refused because of locked blocks.
    pub locked: u64,
    /// The number of system calls that reached absent memory. Such a call copies fewer bytes, or
    /// none.
    pub refused: u64,
}

/// A region and its expected contents.
#[derive(Debug)]
struct Subject {
    region: Region,
    mirror: Mirror,
}

pub struct PagerModel {
    company: Option<Company>,
    /// The locks, each with the range of its blocks.
    locks: Vec<(Locked<'static>, Range<usize>)>,
    /// The region and its expected contents. `drop` frees them.
    subject: &'static Subject,
    /// The program's memory that the region manages, and its initial contents.
    memory: Option<(Memory, Vec<u8>)>,
    setup: Setup,
    /// The size of a block in bytes.
    block: usize,
    /// The lowest possible limit.
    needed: u64,
    /// Whether a pager thread may exist.
    has_worker: bool,
    /// The file that system calls read and write.
    file: File,
    /// The number of events that were applied. Each event writes different contents.
    stamp: u64,
    report: Report,
}

impl Drop for PagerModel {
    fn drop(&mut self) {
        self.company = None;
        Mirror::forget();
        self.locks.clear();
        // SAFETY: `new` leaked the subject from a box. The lines above end all uses of it.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self.subject).cast_mut()) });
    }
}

impl PagerModel {
    fn region(&self) -> &'static Region {
        &self.subject.region
    }

    fn mirror(&self) -> &'static Mirror {
        &self.subject.mirror
    }

    fn bytes(&self) -> usize {
        self.mirror().len()
    }

    /// Returns the blocks that a range touches.
    fn blocks(&self, range: &Range<usize>) -> Range<usize> {
        let first = range.start / self.block;
        first..if range.is_empty() { first } else { range.end.div_ceil(self.block) }
    }

    fn locks_of(&self, block: usize) -> usize {
        self.locks.iter().filter(|(_, blocks)| blocks.contains(&block)).count()
    }

    fn error_of(&self, block: usize) -> Error {
        Error::Locked { at: block * self.block, end: (block + 1) * self.block }
    }

    fn touch(&self, at: usize, step: isize, count: usize, is_write: bool) {
        for nth in 0..count as isize {
            let Some(at) = at.checked_add_signed(nth * step).filter(|&at| at < self.bytes()) else {
                return;
            };
            match is_write {
                true => self.mirror().write(at, &[self.stamp as u8 ^ nth as u8]),
                false => self.mirror().compare(at, 1),
            }
        }
    }

    fn reclaim(&self, bytes: usize) {
        let gone = self.region().reclaim(bytes);
        let most = bytes.min(self.bytes()).next_multiple_of(self.block);
        assert!(gone.is_multiple_of(self.block) && gone <= most, "{gone} of {bytes} bytes");
    }

    fn dont_need(&mut self, range: Range<usize>) {
        let first = range.start.next_multiple_of(self.block).min(range.end);
        let whole =
            first / self.block..(range.end / self.block * self.block).max(first) / self.block;
        let locked = whole.into_iter().find(|&block| self.locks_of(block) > 0);
        let expected = locked.map_or(Ok(()), |block| Err(self.error_of(block)));
        let zeros = vec![0; range.len()];
        self.mirror().change(range.start, || {
            // SAFETY: the model expects zeros. During `change`, other threads accept any byte.
            let done = unsafe { self.region().dont_need_shared(range.clone()) };
            assert_eq!(done, expected);
            if locked.is_some() { &[] } else { &zeros }
        });
        self.report.locked += u64::from(locked.is_some());
        self.mirror().compare(range.start, range.len());
    }

    fn lock(&mut self, range: Range<usize>) {
        if self.locks.len() < LOCKS {
            let locked = self.region().lock(range.clone()).expect("the range is within");
            self.locks.push((locked, self.blocks(&range)));
        }
    }

    fn lock_often(&mut self, at: usize) {
        let block = at / self.block;
        let more = LOCKS_MAX - self.locks_of(block);
        let locks: Vec<_> = (0..more).map(|_| self.region().lock(at..at + 1)).collect();
        assert!(locks.iter().all(|lock| lock.is_ok()));
        let around = at.saturating_sub(self.block)..self.bytes().min(at + self.block);
        for range in [at..at + 1, around] {
            assert_eq!(self.region().lock(range).map(drop), Err(self.error_of(block)));
        }
        self.report.locked += 1;
    }

    fn set_limit(&mut self, limit: Limit) {
        let limit = match limit {
            Off => None,
            Above(bytes) => Some(self.needed + bytes),
            TooLow(bytes) => Some(self.needed.saturating_sub(1 + bytes)),
        };
        let before = self.region().stats().limit;
        let refused = limit.filter(|&limit| limit < self.needed);
        let error = |limit| Error::Limit { limit, needed: self.needed };
        let expected = refused.map_or(Ok(()), |limit| Err(error(limit)));
        assert_eq!(self.region().set_limit(limit), expected);
        let after = if refused.is_some() { before } else { limit };
        assert_eq!(self.region().stats().limit, after);
        self.has_worker |= after.is_some();
    }

    /// Returns whether the kernel can access a range, because the range is locked, or because
    /// faults in the kernel fill it.
    fn is_accessible(&self, range: &Range<usize>) -> bool {
        let is_locked = |block: usize| self.locks_of(block) > 0;
        self.region().stats().backend == "userfaultfd" || self.blocks(range).all(is_locked)
    }

    /// Checks the result of a system call, and returns the number of bytes that it copied.
    fn copied(&mut self, result: isize, range: &Range<usize>, is_locked: bool) -> usize {
        let error = std::io::Error::last_os_error();
        if is_locked || self.is_accessible(range) {
            assert_eq!(result, range.len() as isize, "{error}");
        }
        if result < 0 {
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{error}");
        }
        assert!(result <= range.len() as isize);
        self.report.refused += u64::from(result < range.len() as isize);
        result.max(0) as usize
    }

    fn save(&mut self, range: Range<usize>, is_locked: bool) {
        let locked = is_locked.then(|| self.region().lock(range.clone()));
        let (file, start) = (self.file.as_raw_fd(), self.mirror().pointer(range.start));
        // SAFETY: the range lies within the region, and the kernel only reads it.
        let saved = unsafe { libc::pwrite(file, start.cast(), range.len(), 0) };
        let len = self.copied(saved, &range, is_locked);
        drop(locked);
        let mut found = vec![0; len];
        std::os::unix::fs::FileExt::read_exact_at(&self.file, &mut found, 0).expect("written");
        let expected = &self.mirror().expected()[range.start..range.start + len];
        assert!(found == expected, "the kernel has read other bytes at {}", range.start);
    }

    fn load(&mut self, range: Range<usize>, data: Data, is_locked: bool) {
        let bytes = data.bytes(range.len());
        std::os::unix::fs::FileExt::write_all_at(&self.file, &bytes, 0).expect("there is memory");
        let locked = is_locked.then(|| self.region().lock(range.clone()));
        let (file, start) = (self.file.as_raw_fd(), self.mirror().pointer(range.start));
        self.mirror().change(range.start, || {
            // SAFETY: the range is in the region. During `change` other threads accept any byte.
            let loaded = unsafe { libc::pread(file, start.cast(), range.len(), 0) };
            let len = self.copied(loaded, &range, is_locked);
            &bytes[..len]
        });
        drop(locked);
        self.mirror().compare(range.start, range.len());
    }

    fn interrupt(&self, at: usize) {
        self.mirror().set_next(at);
        // SAFETY: `handle` installed the signal's handler, which can safely run at any point.
        assert_eq!(unsafe { libc::raise(mirror::SIGNAL) }, 0);
    }

    /// Compares all contents of the region's copy, and writes to the copy. Runs in a child that has
    /// only this thread.
    fn use_copy(&self, at: usize, bytes: &[u8], generations: usize) {
        if self.setup.is_left_to_parent() {
            return self.expect_forked();
        }
        let (region, mirror) = (self.region(), self.mirror());
        if generations == 1 {
            region.reclaim(self.bytes() / 2);
        }
        mirror.compare_all();
        mirror.write(at, bytes);
        if generations > 0 {
            let turned: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
            Child::fork(|| self.use_copy(at, &turned, generations - 1)).wait();
        }
        region.reclaim(self.bytes());
        mirror.compare_all();
        self.region().check();
    }

    fn expect_forked(&self) {
        let region = self.region();
        assert_eq!(region.prefetch(0..1), Err(Error::Forked));
        assert_eq!(region.advise(0..1, Cold), Err(Error::Forked));
        assert_eq!(region.lock(0..1).map(drop), Err(Error::Forked));
        assert_eq!(region.set_limit(None), Err(Error::Forked));
        // SAFETY: the region refuses the call.
        assert_eq!(unsafe { region.dont_need_shared(0..1) }, Err(Error::Forked));
        assert_eq!((region.reclaim(1), region.stats().backend), (0, "none"));
        region.check();
    }

    fn in_child(&mut self, at: usize, bytes: &[u8]) {
        Child::fork(|| self.use_copy(at, bytes, 1)).wait();
        self.report.children += 1;
    }

    /// Does the same as `in_child` in a child that is created without fork handlers. Does nothing
    /// if another thread may be executing the pager or the allocator.
    fn unnoticed(&mut self, at: usize, bytes: &[u8]) {
        let is_quiet = self.company.as_ref().is_none_or(|company| company.work == Parked);
        if is_quiet && !self.has_worker && self.setup.is_signal() {
            Child::clone_unnoticed(|| self.use_copy(at, bytes, 0)).wait();
            self.report.children += 1;
        }
    }

    fn start(&mut self, work: Work, seed: u64) {
        self.company = None;
        self.company = Some(Company::new(work, seed, self.subject));
    }

    fn expect_refused(&self, range: Range<usize>) {
        let Range { start, end } = range;
        let expected = Err(Error::Range { start, end, bytes: self.bytes() });
        let region = self.region();
        assert_eq!(region.prefetch(range.clone()), expected);
        assert_eq!(region.advise(range.clone(), Cold), expected);
        assert_eq!(region.advise(range.clone(), Hot), expected);
        assert_eq!(region.lock(range.clone()).map(drop), expected);
        // SAFETY: the region refuses the call.
        assert_eq!(unsafe { region.dont_need_shared(range) }, expected);
    }

    /// Draws an offset: any offset, an offset near an edge of a block or chunk, or an offset in the
    /// first blocks.
    fn draw_point(&self, choices: &mut Choices) -> usize {
        let (bytes, block) = (self.bytes(), self.block);
        let first = bytes.min(16 * block);
        let edge = |choices: &mut Choices, block: usize| {
            let edge = choices.below(bytes.div_ceil(block)) * block;
            choices.beside(&[edge], bytes)
        };
        match choices.below(4) {
            0 => choices.within(0..=bytes),
            1 => edge(choices, block),
            2 => edge(choices, CHUNK),
            _ => choices.within(0..=first),
        }
    }

    /// Draws a range: a few bytes, some blocks, or a range of any length.
    fn draw_range(&self, choices: &mut Choices) -> (usize, usize) {
        let at = self.draw_point(choices);
        let len = match choices.below(8) {
            0 => choices.within(0..=64),
            1 => self.block,
            2..5 => choices.within(0..=4 * self.block),
            5 | 6 => choices.within(1..=80) * self.block,
            _ => self.draw_point(choices),
        };
        // Some ranges end at the end of a block.
        let end = (at + len).min(self.bytes());
        let end = if choices.bool() { end } else { end.next_multiple_of(self.block) };
        (at, end.min(self.bytes()) - at)
    }

    fn draw_touch(&self, choices: &mut Choices) -> Event {
        let block = *choices.pick(&[self.block, PAGE, self.block * 3 / 2, 64 * self.block]);
        let step = if choices.bool() { block as isize } else { -(block as isize) };
        let at = self.draw_point(choices);
        Event::Touch { at, step, count: choices.within(1..=100), is_write: choices.one_in(4) }
    }

    fn draw_limit(choices: &mut Choices) -> Limit {
        match choices.below(4) {
            0 => Off,
            1 => TooLow(choices.beside(&[1, 1 << 20], 1 << 24) as u64),
            _ => Above(choices.beside(&[1, 1 << 20], 2 << 20) as u64),
        }
    }

    fn draw_past_the_end(&self, choices: &mut Choices) -> Event {
        let (bytes, most) = (self.bytes(), usize::MAX);
        let ranges = [
            (0, bytes + 1),
            (bytes + 1, bytes + 1),
            (bytes, bytes - 1),
            (most - 1, most),
            (0, most),
        ];
        let (start, end) = *choices.pick(&ranges);
        Event::PastTheEnd { start, end }
    }
}

impl Model for PagerModel {
    type Setup = Setup;
    type Event = Event;
    type Report = Report;

    fn setup(choices: &mut Choices) -> Setup {
        let order = choices.below(5) as u32;
        let bytes = match choices.below(4) {
            0 => choices.beside(&[PAGE << order], 64 << 10),
            1 => choices.within(1..=256 << 10),
            _ => choices.beside(&[CHUNK, 2 * CHUNK], 9 << 19),
        };
        let limit = choices.beside(&[1, 1 << 20], 2 << 20) as u64;
        Setup {
            backend: *choices.pick(&BACKENDS),
            block: if choices.one_in(3) { Adaptive(order) } else { Fixed(order) },
            codec: choices.pick(zcomp::codecs()).name(),
            bytes: bytes.max(1),
            limit: choices.one_in(3).then_some(limit),
            store_limit: choices.one_in(6).then(|| choices.within(1..=16) as u64 * (64 << 10)),
            checksums: choices.bool(),
            is_copied: choices.bool(),
            is_managed: choices.one_in(4),
            has_fault: false,
        }
    }

    fn new(setup: &Setup) -> Option<Self> {
        let memory = setup.is_managed.then(|| Memory::new(setup.bytes));
        let first = memory.as_ref().map(|memory| memory.contents().to_vec());
        let region = match setup.region(memory.as_ref(), None) {
            Err(Error::Userfaultfd { .. } | Error::ProcessMemory { .. }) => return None,
            region => region.expect("there is memory, and the options are possible"),
        };
        let lowest = region.set_limit(Some(0));
        let Err(Error::Limit { limit: 0, needed }) = lowest else { panic!("{lowest:?}") };
        let region = match setup.limit {
            None => region,
            Some(above) => {
                drop(region);
                let again = setup.region(memory.as_ref(), Some(needed + above));
                again.expect("the limit is not too low")
            }
        };
        let (start, bytes) = (region.as_ptr(), region.len());
        let expected = match (&memory, &first) {
            (Some(memory), Some(first)) => {
                let skipped = start.addr() - memory.start.addr().get();
                &first[skipped..skipped + bytes]
            }
            _ => &vec![0; bytes],
        };
        // SAFETY: this is the region's memory, which the mirror uses only while the region exists.
        let mirror = unsafe { Mirror::new(start, expected) };
        let block = region.stats().block;
        let subject: &'static Subject = Box::leak(Box::new(Subject { region, mirror }));
        // SAFETY: `drop` calls `forget` before it drops the mirror.
        unsafe { subject.mirror.handle() };
        // SAFETY: the name is a C string, and nothing else owns the new descriptor.
        let file = unsafe {
            let file = libc::memfd_create(c"copied".as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 0);
            File::from_raw_fd(file)
        };
        Some(PagerModel {
            company: None,
            locks: Vec::new(),
            subject,
            memory: memory.zip(first),
            setup: *setup,
            block,
            needed,
            has_worker: setup.limit.is_some(),
            file,
            stamp: 0,
            report: Report::default(),
        })
    }

    fn draw(&self, choices: &mut Choices) -> Event {
        let all = [(9, 'w'), (3, 'm'), (4, 'r'), (8, 't'), (9, 'e'), (5, 'a'), (1, 'p'), (4, 'd')];
        let more = [(3, 'l'), (3, 'u'), (2, 'L'), (2, 's'), (2, 'o'), (1, 'i'), (1, 'c'), (3, '?')];
        let kind = choices.weighted(&[all, more].concat());
        let (at, len) = self.draw_range(choices);
        match kind {
            'w' => Event::Write { at, len, data: Data::draw(choices, self.stamp) },
            'm' => Event::Mixed { at, len, stamp: self.stamp },
            'r' => Event::Read { at, len },
            't' => self.draw_touch(choices),
            'e' if choices.bool() => Event::Reclaim { bytes: self.bytes() },
            'e' => Event::Reclaim { bytes: len },
            'a' if choices.one_in(3) => Event::Advise { at, len, advice: Hot },
            'a' => Event::Advise { at, len, advice: Cold },
            'p' => Event::Prefetch { at, len },
            'd' => Event::DontNeed { at, len },
            'l' => Event::Lock { at, len },
            'u' => Event::Unlock { nth: choices.below(LOCKS) },
            'L' => Event::SetLimit(Self::draw_limit(choices)),
            's' => Event::Save { at, len, is_locked: choices.bool() },
            'o' => {
                let data = Data::draw(choices, self.stamp);
                Event::Load { at, len, data, is_locked: choices.bool() }
            }
            'i' => Event::Interrupt { at },
            'c' if choices.one_in(4) => Event::Unnoticed { at, len, data: Noise(self.stamp) },
            'c' => Event::InChild { at, len, data: Data::draw(choices, self.stamp) },
            _ => match choices.below(7) {
                0 => self.draw_past_the_end(choices),
                1 if choices.one_in(200) => Event::LockOften { at },
                1..4 => Event::Stop,
                _ => {
                    let work = [Parked, Reading, Writing, Evicting, Signalling];
                    Event::Start { work: *choices.pick(&work), seed: choices.u64() }
                }
            },
        }
    }

    fn apply(&mut self, event: &Event) {
        self.stamp += 1;
        match *event {
            Event::Write { at, len, data } => self.mirror().write(at, &data.bytes(len)),
            Event::Mixed { at, len, stamp } => {
                let mut choices = Choices::seeded(stamp);
                let stamps = (0..len.div_ceil(PAGE) as u64).map(|page| stamp << 16 | page);
                let kinds = stamps.map(|stamp| Data::draw(&mut choices, stamp));
                let bytes: Vec<u8> = kinds.flat_map(|data| data.bytes(PAGE)).take(len).collect();
                self.mirror().write(at, &bytes);
            }
            Event::Read { at, len } => self.mirror().compare(at, len),
            Event::Touch { at, step, count, is_write } => self.touch(at, step, count, is_write),
            Event::Reclaim { bytes } => self.reclaim(bytes),
            Event::Advise { at, len, advice } => {
                self.region().advise(at..at + len, advice).expect("the range is within");
            }
            Event::Prefetch { at, len } => {
                self.region().prefetch(at..at + len).expect("the range is within");
            }
            Event::DontNeed { at, len } => self.dont_need(at..at + len),
            Event::Lock { at, len } => self.lock(at..at + len),
            Event::Unlock { nth } if nth < self.locks.len() => drop(self.locks.swap_remove(nth)),
            Event::Unlock { .. } => {}
            Event::LockOften { at } => self.lock_often(at.min(self.bytes() - 1)),
            Event::SetLimit(limit) => self.set_limit(limit),
            Event::Save { at, len, is_locked } => self.save(at..at + len, is_locked),
            Event::Load { at, len, data, is_locked } => self.load(at..at + len, data, is_locked),
            Event::Interrupt { at } => self.interrupt(at),
            Event::InChild { at, len, data } => self.in_child(at, &data.bytes(len)),
            Event::Unnoticed { at, len, data } => self.unnoticed(at, &data.bytes(len)),
            Event::Start { work, seed } => self.start(work, seed),
            Event::Stop => self.company = None,
            Event::PastTheEnd { start, end } => self.expect_refused(start..end),
        }
        self.mirror().expect_no_wrong();
    }

    fn check(&mut self) {
        let _pause = self.company.as_ref().map(Company::pause);
        self.mirror().compare_all();
        self.region().check();
        let (stats, blocks) = (self.region().stats(), self.bytes().div_ceil(self.block));
        let locked = (0..blocks).filter(|&block| self.locks_of(block) > 0).count() * self.block;
        assert!(stats.resident >= locked as u64, "{locked} bytes are locked: {stats:?}");
        assert!(stats.held >= stats.resident && stats.held_max >= stats.held, "{stats:?}");
        assert_eq!(stats.block, self.block);
    }

    fn finish(mut self) -> Report {
        self.company = None;
        self.locks.clear();
        self.check();
        let stats = self.region().stats();
        self.report = Report {
            first_touches: stats.first_touches,
            kept: stats.kept,
            filled: stats.filled,
            in_place: stats.in_place,
            marked: stats.marked,
            evicted: stats.evicted,
            zeros: stats.zeros,
            stolen: stats.stolen,
            incompressible: stats.incompressible,
            ..self.report
        };
        let report = self.report;
        if let Some((memory, mut expected)) = self.memory.take() {
            let skipped = self.mirror().pointer(0).addr() - memory.start.addr().get();
            expected[skipped..skipped + self.bytes()].copy_from_slice(self.mirror().expected());
            drop(self);
            assert!(memory.contents() == expected, "memory that is managed no more has changed");
            return report;
        }
        self.dont_need(0..self.bytes());
        self.reclaim(self.bytes());
        self.check();
        assert_eq!(self.region().stats().stored, 0, "the device stores something");
        report
    }

    fn simpler(event: &Event) -> Vec<Event> {
        event.simpler()
    }
}
