//! Stress tests in which threads use a pool whose load shifts. Classes open and close, objects and
//! headers move, and the limit changes. Every read is compared with the expected content.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use testkit::contents::stamped;
use testkit::handles::Handles;
use testkit::load::{Sizes, Stop, Subject, rounds};
use testkit::{load_time, seed};
use zsmalloc::{Columns, Config, Content, EntryPool, EntryWriteGuard, Old, Pool};

/// The expected content of an entry, in 64 bits: empty, a payload, or an object's version and
/// length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected(u64);

impl Expected {
    const LEN_BITS: u32 = 17;
    const INLINE: u64 = 1 << 63;

    fn object(version: u64, len: usize) -> Self {
        Expected(version << Self::LEN_BITS | len as u64)
    }

    fn inline(payload: u64) -> Self {
        Expected(Self::INLINE | payload)
    }

    /// Returns the bytes and flags of the object, or the payload as an error if the entry has no
    /// object.
    fn content(self, index: u32) -> Result<(Vec<u8>, u8), u64> {
        if self.0 & Self::INLINE != 0 {
            return Err(self.0 & !Self::INLINE);
        }
        let (version, len) = (self.0 >> Self::LEN_BITS, self.0 & ((1 << Self::LEN_BITS) - 1));
        Ok((stamped(version << 20 | index as u64, len as usize), version as u8 & 15))
    }

    fn old(self, index: u32) -> Old {
        match self.content(index) {
            Ok((bytes, flags)) => Old::Object { bytes: bytes.len(), flags },
            Err(payload) => Old::Inline(payload),
        }
    }
}

/// The entries of a device. An entry's expected content changes only while the entry is locked, so
/// a thread that has locked the entry can compare the content exactly.
struct Words {
    core: Arc<EntryPool>,
    expected: Vec<AtomicU64>,
    versions: AtomicU64,
}

impl Words {
    fn new(config: Config, len: usize) -> Self {
        let core = Arc::new(EntryPool::new(config, len as u64, Columns::default()).unwrap());
        core.compact_in_background();
        let empty = Expected::inline(0).0;
        let expected = (0..len).map(|_| AtomicU64::new(empty)).collect();
        Words { core, expected, versions: AtomicU64::new(0) }
    }

    fn expected(&self, index: u32) -> Expected {
        Expected(self.expected[index as usize].load(Relaxed))
    }

    fn expect(&self, index: u32, expected: Expected) {
        self.expected[index as usize].store(expected.0, Relaxed);
    }

    fn compare(&self, index: u32, content: Content<&[u8]>) {
        match self.expected(index).content(index) {
            Ok((bytes, flags)) => {
                assert!(content == Content::Object { bytes: &bytes[..], flags }, "word {index}");
            }
            Err(payload) => assert!(content == Content::Inline(payload), "word {index}"),
        }
    }

    fn lock(&self, index: u32) -> EntryWriteGuard<'_> {
        let word = self.core.lock(index).unwrap();
        self.compare(index, word.content());
        word
    }

    fn fresh(&self, index: u32, len: usize) -> (Expected, Vec<u8>, u8) {
        let new = Expected::object(self.versions.fetch_add(1, Relaxed), len);
        let (bytes, flags) = new.content(index).unwrap();
        (new, bytes, flags)
    }

    fn write(&self, index: u32, len: usize) {
        let (new, bytes, flags) = self.fresh(index, len);
        let staged = self.core.stage(index, &bytes);
        let (word, old) = (self.lock(index), self.expected(index));
        match staged {
            Ok(staged) => {
                self.expect(index, new);
                assert_eq!(word.replace(staged, flags), old.old(index));
            }
            Err(error) => {
                assert!(error.is_limit(), "{error}");
                self.write_over(word, index, new, &bytes, flags);
            }
        }
    }

    /// Overwrites the old object in place. The pool can refuse the overwrite if the old object is
    /// shorter.
    fn write_over(
        &self,
        word: EntryWriteGuard<'_>,
        index: u32,
        new: Expected,
        bytes: &[u8],
        flags: u8,
    ) {
        let old = self.expected(index);
        let fits = old.content(index).is_ok_and(|(old, _)| bytes.len() <= old.len());
        self.expect(index, new);
        match word.overwrite(bytes, flags) {
            Ok(held) => assert_eq!(held, old.old(index)),
            Err(word) => {
                assert!(!fits, "word {index} refused {} bytes", bytes.len());
                self.expect(index, old);
                self.compare(index, word.content());
            }
        }
    }

    /// Overwrites the whole object, which keeps its length and flags.
    fn patch(&self, index: u32) {
        let word = self.lock(index);
        let Ok((bytes, flags)) = self.expected(index).content(index) else { return };
        let (mut new, mut fresh, mut new_mark) = self.fresh(index, bytes.len());
        while new_mark != flags {
            (new, fresh, new_mark) = self.fresh(index, bytes.len());
        }
        self.expect(index, new);
        word.patch(&fresh).unwrap();
    }

    fn clear(&self, index: u32, payload: u64) {
        let (word, old) = (self.lock(index), self.expected(index));
        self.expect(index, Expected::inline(payload));
        assert_eq!(word.set_payload(payload), old.old(index));
    }

    fn read(&self, rng: &mut Rng) {
        let first = self.pick(rng);
        let len = self.expected.len() as u32;
        let pins: Vec<_> = (0..rng.u32(1..4))
            .map(|nth| (first + nth * 7) % len)
            .map(|index| (index, self.core.read(index)))
            .collect();
        for _ in 0..2 {
            // A pin of an entry that did not exist locks nothing, so another thread may have filled
            // the entry since.
            let held = pins.iter().filter(|(_, pin)| pin.content() != Content::Inline(0));
            for (index, pin) in held {
                self.compare(*index, pin.content());
            }
            (0..rng.u32(..3)).for_each(|_| std::thread::yield_now());
        }
    }

    /// Returns a random entry, or, in one of eight calls, one of the first 16 entries.
    fn pick(&self, rng: &mut Rng) -> u32 {
        let most = if rng.u32(..8) == 0 { 16 } else { self.expected.len() };
        rng.usize(..most) as u32
    }
}

impl Subject for Words {
    fn largest(&self) -> usize {
        self.core.largest()
    }

    fn operate(&self, rng: &mut Rng, sizes: &Sizes, filled: usize) {
        let index = self.pick(rng);
        if index as usize * 1000 >= filled * self.expected.len() {
            return self.clear(index, 0);
        }
        match rng.u32(..16) {
            0..6 => self.write(index, sizes.pick(rng)),
            6 => {
                let (new, bytes, flags) = self.fresh(index, sizes.pick(rng));
                self.write_over(self.lock(index), index, new, &bytes, flags);
            }
            7 => self.patch(index),
            8 => self.clear(index, rng.u64(..1 << 59)),
            9 => drop(self.core.stage(index, b"never published")),
            _ => self.read(rng),
        }
    }

    fn disturb(&self, rng: &mut Rng) {
        match rng.u32(..8) {
            0..3 => drop(self.core.compact()),
            3..6 => drop(self.core.shrink(rng.usize(..1 << 18))),
            6 => drop(self.core.trim()),
            _ => assert!(self.core.bytes() >= self.core.freeable()),
        }
    }

    fn pages_used(&self) -> usize {
        self.core.pages().used()
    }

    fn set_limit(&self, pages: Option<usize>) {
        self.core.pages().set_limit(pages);
    }

    fn moved(&self) -> (u64, u64) {
        let stat = self.core.compaction_stat();
        (stat.moved_objects, stat.plans)
    }

    fn check(&self) {
        self.core.check();
        for index in 0..self.expected.len() as u32 {
            self.compare(index, self.core.read(index).content());
        }
    }
}

/// A thread is about to release pages of a zspage. Before it locks the zspage's class, the zspage
/// may be destroyed, or replaced by another zspage.
#[test]
fn stress_zspages_come_and_go_beside_trims() {
    let core = EntryPool::new(Config::default(), 2, Columns::default()).unwrap();
    let begun = Instant::now();
    let time = load_time(Duration::from_secs(1));
    std::thread::scope(|scope| {
        for index in 0..2 {
            let core = &core;
            scope.spawn(move || {
                while begun.elapsed() < time {
                    let staged = core.stage(index, &[1; 4096]).unwrap();
                    core.lock(index).unwrap().replace(staged, 0);
                    core.lock(index).unwrap().set_payload(0);
                    core.trim();
                }
            });
        }
    });
    core.check();
    assert_eq!(core.pages().used(), 0);
}

/// When a move retargets an entry, the object's bytes are already copied. The test has few entries,
/// and a read takes no longer than a copy, so reads and moves of the same object often coincide.
#[test]
fn stress_reads_meet_moves() {
    const WORDS: u32 = 32;
    let core = EntryPool::new(Config::default(), WORDS as u64, Columns::default()).unwrap();
    let mut rng = Rng::with_seed(seed(103));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in (0..WORDS).cycle().take_while(|_| !done.load(Relaxed)) {
                let pin = core.read(index);
                let Content::Object { bytes, .. } = pin.content() else { continue };
                let (first, last) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>());
                assert!(first == last && bytes[0] == index as u8 + 1, "word {index} is torn");
            }
        });
        let _stop = Stop(&done);
        let begun = Instant::now();
        let time = load_time(Duration::from_secs(2));
        let moved = || core.compaction_stat().moved_objects;
        while begun.elapsed() < time || (moved() < 10_000 && begun.elapsed() < 10 * time) {
            let (least, spread) = (rng.usize(400..490), rng.usize(1..20));
            for index in 0..WORDS {
                if rng.bool() {
                    let stamp = (rng.u64(..) << 8 | (index as u64 + 1)).to_le_bytes();
                    let bytes = stamp.repeat(least + rng.usize(..spread));
                    let staged = core.stage(index, &bytes).unwrap();
                    core.lock(index).unwrap().replace(staged, 0);
                }
            }
            core.compact();
        }
        println!("{} moves", moved());
    });
    core.check();
}

#[test]
fn stress_words_under_a_load_that_shifts() {
    let mut rng = Rng::with_seed(seed(101));
    let words = Words::new(Config::default(), 3000);
    rounds(&words, &mut rng, load_time(Duration::from_secs(5)));
    words.core.stop_background();
    (0..3000).for_each(|index| words.clear(index, 0));
    words.core.trim();
    words.core.check();
    let zspages: u64 = words.core.classes().iter().map(|stat| stat.obj_allocated).sum();
    assert_eq!((words.core.pages().used(), zspages), (0, 0), "left after all was freed");
}

#[test]
fn stress_handles_under_a_load_that_shifts() {
    let mut rng = Rng::with_seed(seed(102));
    let pool = Pool::new(Config::default()).unwrap();
    pool.compact_in_background();
    let handles = Handles::new(pool, 3000);
    rounds(&handles, &mut rng, load_time(Duration::from_secs(5)));
    handles.free_all();
}
