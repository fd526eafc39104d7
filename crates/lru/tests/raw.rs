//! Compares the cache on which `LruCache` is built with a model, and tests the cache's memory,
//! dictionary and forks.
#![allow(clippy::unwrap_used, reason = "a test")]

use lru::raw::{Comparison, Departed, Found, Offer, Packed, Put, RawLruCache, Verdicts};
use lru::{DictionarySource, Error, Options};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use testkit::child::in_child;
use testkit::{seed, seed_of};
use zcomp::Dictionary;

/// A key that contains its hash, so that tests can create keys with equal hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key(u32, String);

/// A key to look up, and whether it can be compared while the lock is held.
struct Wanted<'k>(&'k Key, bool);

impl Wanted<'_> {
    fn compare(&self, kept: &Key) -> Comparison<Key> {
        match self {
            Wanted(_, false) => Comparison::Unknown(kept.clone()),
            Wanted(key, _) if *key == kept => Comparison::Equal,
            Wanted(..) => Comparison::Different,
        }
    }
}

fn options(limit: usize, codec: &str, dictionary: DictionarySource) -> Options {
    Options { algorithm: zcomp::by_name(codec).unwrap(), dictionary, ..Options::new(limit) }
}

struct Cache {
    kept: Arc<RawLruCache<Key>>,
    compares_inside: bool,
}

impl Cache {
    fn new(limit: usize, codec: &str, dictionary: DictionarySource) -> Self {
        let options = options(limit, codec, dictionary);
        let kept = RawLruCache::new(options).unwrap();
        kept.report_evicted();
        Cache { kept, compares_inside: true }
    }

    /// Repeats `call` until the key has been compared with all keys that have its hash.
    fn ask<T>(
        &self,
        key: &Key,
        mut call: impl FnMut(&dyn Fn(&Key) -> Comparison<Key>, &Verdicts) -> Found<T, Key>,
    ) -> Option<T> {
        let mut verdicts = Verdicts::default();
        loop {
            let wanted = Wanted(key, self.compares_inside);
            match call(&|kept| wanted.compare(kept), &verdicts) {
                Found::Yes(value) => return Some(value),
                Found::No => return None,
                Found::Ask(unknown) => judge(key, unknown, &mut verdicts),
            }
        }
    }

    fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let packed =
            self.ask(key, |compare, verdicts| self.kept.get(key.0, compare, verdicts, true));
        packed.map(|(_, packed)| packed.unwrap().value().unwrap())
    }

    fn remove(&self, key: &Key) -> Option<Vec<u8>> {
        let value = self.get(key);
        let removed = self.ask(key, |compare, verdicts| {
            self.kept.remove(key.0, compare, verdicts, &mut Departed::default())
        });
        assert_eq!(removed.is_some(), value.is_some());
        value
    }

    fn remove_oldest(&self) -> Option<(Key, Vec<u8>)> {
        let (key, (id, packed)) = self.kept.oldest(Key::clone)?;
        assert!(self.kept.remove_same(id, &mut Departed::default()));
        assert!(!self.kept.remove_same(id, &mut Departed::default()));
        Some((key, packed.unwrap().value().unwrap()))
    }

    /// Stores a value. Returns the evicted values, and whether the value was stored.
    fn put(&self, key: &Key, value: &[u8]) -> (Vec<(Key, Vec<u8>)>, bool) {
        let mut out = Departed::default();
        let is_kept = match self.try_put(key, value, &mut out) {
            Ok(()) => true,
            Err(Error::NoRoom { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        let unpacked = |(key, packed): (Key, Packed)| (key, packed.value().unwrap());
        (out.evicted.into_iter().map(unpacked).collect(), is_kept)
    }

    fn try_put(&self, key: &Key, value: &[u8], out: &mut Departed<Key>) -> Result<(), Error> {
        let mut verdicts = Verdicts::default();
        let packed = self.kept.pack(value)?;
        let mut offer = Some(Offer { key: key.clone(), key_bytes: 100, packed });
        loop {
            let wanted = Wanted(key, self.compares_inside);
            let compare = |offered: &Key, kept: &Key| {
                assert_eq!(offered, key);
                wanted.compare(kept)
            };
            match self.kept.put(key.0, &compare, &verdicts, value, &mut offer, out)? {
                Put::Done(None) | Put::There => return Ok(()),
                Put::Done(Some(due)) => {
                    self.kept.learn(due, out);
                    return Ok(());
                }
                Put::Ask(unknown) => judge(key, unknown, &mut verdicts),
            }
        }
    }
}

fn judge(key: &Key, unknown: Vec<(lru::raw::Id, Key)>, verdicts: &mut Verdicts) {
    for (id, kept) in unknown {
        if kept == *key {
            verdicts.same = Some(id);
        } else {
            verdicts.others.push(id);
        }
    }
}

/// Returns a value: noise, one repeated byte, or a text that shares words with other values.
fn value(rng: &mut fastrand::Rng) -> Vec<u8> {
    let len = match rng.u32(..40) {
        0 => rng.usize(..400 << 10),
        1..5 => rng.usize(..9000),
        5 => 0,
        _ => rng.usize(..1500),
    };
    match rng.u32(..3) {
        0 => (0..len).map(|_| rng.u8(..)).collect(),
        1 => vec![rng.u8(..); len],
        _ => document(rng).into_bytes(),
    }
}

fn document(rng: &mut fastrand::Rng) -> String {
    let line = |rng: &mut fastrand::Rng| {
        let title = ["ceramic mug", "desk lamp", "notebook", "oak shelf"][rng.usize(..4)];
        let colour = ["blue", "red", "green", "grey", "white"][rng.usize(..5)];
        format!(
            r#"{{"sku":"{:012x}","title":"{title}","colour":"{colour}","price":{}}}"#,
            rng.u64(..1 << 48),
            rng.u32(..100_000)
        )
    };
    let lines: Vec<_> = (0..rng.usize(2..8)).map(|_| line(rng)).collect();
    let id = rng.u32(..);
    format!(r#"{{"order_id":{id},"status":"paid","lines":[{}],"note":null}}"#, lines.join(","))
}

fn key(rng: &mut fastrand::Rng) -> Key {
    let nth = rng.u32(..400);
    // Three keys share each hash.
    Key((nth / 3).wrapping_mul(0x9E37_79B9), nth.to_string())
}

/// Makes random calls, and compares the results with a list of keys and values in the order of use.
fn run(seed: u64, cache: &mut Cache, calls: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model: VecDeque<(Key, Vec<u8>)> = VecDeque::new();
    for _ in 0..calls {
        cache.compares_inside = rng.bool();
        let key = key(&mut rng);
        let place = model.iter().position(|(kept, _)| *kept == key);
        match rng.u32(..10) {
            0..5 => {
                let value = value(&mut rng);
                let old = place.and_then(|place| model.remove(place));
                let all = model.len();
                let (evicted, is_kept) = cache.put(&key, &value);
                // The evicted values are the least recently used, and are unchanged.
                for evicted in evicted {
                    assert_eq!(model.pop_front(), Some(evicted));
                }
                assert!(
                    is_kept || all == model.len(),
                    "seed {seed}: {} of {} went for nothing, value {} old {:?} {:?}",
                    all - model.len(),
                    all,
                    value.len(),
                    old.as_ref().map(|o| o.1.len()),
                    cache.kept.stats()
                );
                assert!(is_kept || value.len() > 100_000, "seed {seed}: {}", value.len());
                model.extend(if is_kept { Some((key, value)) } else { old });
            }
            5..8 => {
                let found = place.and_then(|place| model.remove(place));
                assert_eq!(cache.get(&key).as_ref(), found.as_ref().map(|(_, value)| value));
                model.extend(found);
            }
            8 => {
                let found = place.and_then(|place| model.remove(place));
                assert_eq!(cache.remove(&key), found.map(|(_, value)| value));
            }
            _ => {
                assert_eq!(cache.remove_oldest(), model.pop_front());
            }
        }
        let stats = cache.kept.stats();
        assert!(stats.held <= stats.limit, "seed {seed}: {stats:?}");
        assert_eq!(stats.entries, model.len());
        if rng.u32(..100) == 0 {
            cache.kept.check();
        }
    }
    cache.kept.check();
    let mut keys = Vec::new();
    cache.kept.for_each_key(|key| keys.push(key.clone()));
    assert!(keys.iter().eq(model.iter().map(|(key, _)| key)));
    cache.kept.clear(&mut Departed::default());
    cache.kept.check();
    assert_eq!(cache.kept.len(), 0);
}

#[test]
fn it_keeps_what_a_model_keeps() {
    let first = seed(1);
    for (nth, limit) in [700 << 10, 1 << 20, 3 << 20, 8 << 20].into_iter().enumerate() {
        for codec in ["zstd", "lz4"] {
            let seed = first.wrapping_add(nth as u64);
            run(seed, &mut Cache::new(limit, codec, DictionarySource::Trained), 3000);
        }
    }
    let given = DictionarySource::Given(Dictionary::new(&b"ceramic mug, desk lamp"[..]).unwrap());
    run(seed(5), &mut Cache::new(1 << 20, "zstd", given), 2000);
    run(seed(6), &mut Cache::new(1 << 20, "zstd", DictionarySource::None), 2000);
}

/// A cache that was full of small values can hold as many large values as a new cache.
#[test]
fn what_small_values_leave_behind_is_given_back() {
    let mut rng = fastrand::Rng::with_seed(seed(10));
    for (limit, codec) in [(1 << 20, "lz4"), (1 << 20, "zstd"), (8 << 20, "lz4")] {
        for percent in (20..95).step_by(5) {
            let noise: Vec<u8> = (0..limit * percent / 100).map(|_| rng.u8(..)).collect();
            let (large, new) =
                (Key(7, "large".into()), Cache::new(limit, codec, DictionarySource::None));
            let is_kept_in_new = new.put(&large, &noise).1;
            let mut out = Departed::default();
            let cache = Cache::new(limit, codec, DictionarySource::None);
            let mut nth = 0;
            while cache.kept.stats().evictions < 100 {
                nth += 1;
                cache.try_put(&Key(nth, nth.to_string()), b"x", &mut out).unwrap();
            }
            let before = cache.kept.len();
            assert_eq!(cache.put(&large, &noise).1, is_kept_in_new, "{limit} {codec} {percent}");
            cache.kept.check();
            let left = cache.kept.len();
            assert!(is_kept_in_new || left == before);
            // Small values stay if they fit in addition to the large value.
            assert!(percent > 50 || left > before / 10, "{limit} {percent}: {left} of {before}");
        }
    }
}

#[test]
fn an_empty_cache_is_as_a_new_one() {
    let cache = Cache::new(8 << 20, "lz4", DictionarySource::None);
    let new = cache.kept.stats().held;
    let fill = || {
        let mut out = Departed::default();
        for nth in 0..50_000 {
            cache.try_put(&Key(nth, nth.to_string()), b"x", &mut out).unwrap();
        }
    };
    fill();
    while cache.remove_oldest().is_some() {}
    assert!(cache.kept.stats().held < new + (8 << 20) / 50);
    fill();
    // While values are removed, memory is released step by step.
    let full = cache.kept.stats().held;
    while cache.kept.len() > 3000 {
        cache.remove_oldest();
    }
    cache.kept.check();
    assert!(cache.kept.stats().held < new + full / 3, "{:?}", cache.kept.stats());
    cache.kept.clear(&mut Departed::default());
    assert_eq!(cache.kept.stats().held, new);
}

/// A cache of similar documents trains a dictionary, and then needs less memory.
#[test]
fn a_dictionary_is_trained_where_it_pays() {
    let kept = |dictionary| {
        let mut rng = fastrand::Rng::with_seed(seed(7));
        let cache = Cache::new(4 << 20, "zstd", dictionary);
        for nth in 0..40_000 {
            let key = Key(nth, nth.to_string());
            let document = document(&mut rng);
            assert!(cache.put(&key, document.as_bytes()).1);
            assert_eq!(cache.get(&key).unwrap(), document.as_bytes());
        }
        cache.kept.check();
        cache.kept.stats()
    };
    let (with, without) = (kept(DictionarySource::Trained), kept(DictionarySource::None));
    assert!(with.dictionary > 0 && without.dictionary == 0);
    assert!(with.entries * 10 > without.entries * 11, "{with:?}\n{without:?}");

    let mut rng = fastrand::Rng::with_seed(seed(8));
    let cache = Cache::new(4 << 20, "zstd", DictionarySource::Trained);
    for nth in 0..4000 {
        let noise: Vec<u8> = (0..500).map(|_| rng.u8(..)).collect();
        assert!(cache.put(&Key(nth, nth.to_string()), &noise).1);
    }
    cache.kept.check();
    assert_eq!(cache.kept.stats().dictionary, 0);
}

/// Returns text of `len` bytes that shares words with other texts.
fn prose(len: usize, rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        // A few words are common, and many are rare.
        let nth = (3000.0_f64.powf(rng.f64()) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let letters = nth.to_le_bytes().map(|byte| b'a' + byte % 20);
        text.extend_from_slice(&letters[..2 + (nth >> 60) as usize % 7]);
        text.push(b' ');
    }
    text.truncate(len);
    text
}

/// Tests values of several sizes, while they are added, and while other values replace them.
#[test]
fn a_trained_dictionary_never_takes_more_than_it_saves() {
    const LIMIT: usize = 32 << 20;
    for (len, mib) in [(100, 4), (500, 6), (2000, 10), (16 << 10, 30), (64 << 10, 30)] {
        let mut rng = fastrand::Rng::with_seed(seed(14));
        let [with, without] = [DictionarySource::Trained, DictionarySource::None]
            .map(|training| Cache::new(LIMIT, "zstd", training));
        let count = (mib << 20) / len;
        for nth in 0..count * 3 / 2 {
            let (key, value) =
                (Key(nth as u32 % count as u32, String::new()), prose(len, &mut rng));
            assert!(with.put(&key, &value).1 && without.put(&key, &value).1);
            if nth % (count / 40) == 0 || nth + 1 == count * 3 / 2 {
                let [with, without] = [&with, &without].map(|cache| cache.kept.stats());
                assert!(with.held <= without.held + LIMIT / 128, "{len}: {with:?}\n{without:?}");
            }
        }
        with.kept.check();
        let [with, without] = [with, without].map(|cache| cache.kept.stats());
        assert_eq!((with.entries, with.evictions), (without.entries, 0));
        println!("values of {len} bytes: {} of {}", with.held, without.held);
        // A small value repeats little of its own text, so the dictionary must help.
        assert!(len > 2000 || with.held * 20 < without.held * 19, "{len}: {with:?}\n{without:?}");
    }
}

#[test]
fn a_value_that_fits_nowhere_leaves_the_one_in_its_place() {
    let mut rng = fastrand::Rng::with_seed(seed(9));
    let mut noise = |len| (0..len).map(|_| rng.u8(..)).collect::<Vec<u8>>();
    let cache = Cache::new(4 << 20, "lz4", DictionarySource::None);
    let key = Key(1, "key".into());
    // The second value replaces a value of the same size, although both together exceed the limit.
    let (first, second) = (noise(2_300_000), noise(2_300_000));
    assert!(cache.put(&key, &first).1);
    assert!(cache.put(&key, &second).1);
    assert_eq!(cache.get(&key).unwrap(), second);
    assert!(!cache.put(&key, &noise(5_000_000)).1);
    assert_eq!(cache.get(&key).unwrap(), second);
    cache.kept.check();
}

/// A value that replaces a value of the same size evicts no other value.
#[test]
fn a_value_in_the_place_of_another_needs_no_more_room() {
    let mut rng = fastrand::Rng::with_seed(seed(11));
    let mut noise = |len| (0..len).map(|_| rng.u8(..)).collect::<Vec<u8>>();
    for len in [1 << 20, 40_000, 5000] {
        let cache = Cache::new(4 << 20, "lz4", DictionarySource::None);
        let key = Key(0, "large".into());
        assert!(cache.put(&key, &noise(len)).1);
        let mut nth = 0;
        while cache.kept.stats().held < (4 << 20) * 15 / 16 {
            nth += 1;
            assert!(cache.put(&Key(nth, nth.to_string()), &noise(4000)).1);
        }
        for _ in 0..20 {
            assert!(cache.put(&key, &noise(len)).1);
        }
        assert_eq!(cache.kept.stats().evictions, 0, "{len}");
        cache.kept.check();
    }
}

#[test]
fn a_limit_that_leaves_no_room_is_refused() {
    let new = |limit| RawLruCache::<Key>::new(Options::new(limit));
    let Err(Error::LimitTooSmall { least }) = new(1000) else { panic!("no room") };
    new(least).unwrap();
    assert_eq!(new(least - 1).unwrap_err(), Error::LimitTooSmall { least });
}

/// A child has a consistent copy of the cache, even if other threads used the cache during the
/// fork.
#[test]
fn a_child_has_a_copy() {
    let cache = Arc::new(Cache::new(1 << 20, "zstd", DictionarySource::Trained));
    let (stop, stops) = std::sync::mpsc::channel::<()>();
    let stops = Arc::new(std::sync::Mutex::new(stops));
    let workers: Vec<_> = (0..2u64)
        .map(|nth| {
            let (cache, stops) = (cache.clone(), stops.clone());
            std::thread::spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed_of(nth));
                while stops.lock().unwrap().try_recv() == Err(std::sync::mpsc::TryRecvError::Empty)
                {
                    let key = key(&mut rng);
                    cache.put(&key, &value(&mut rng));
                    cache.get(&key);
                }
            })
        })
        .collect();
    for _ in 0..10 {
        in_child(|| {
            let key = Key(1, "in the child".into());
            assert!(cache.put(&key, b"a value").1);
            assert_eq!(cache.get(&key).unwrap(), b"a value");
        });
    }
    drop(stop);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    cache.kept.check();
}

/// Other threads access the cache while values are packed again. On a busy machine, another thread
/// might not run during a single packing, so the test repeats the packing.
#[test]
fn packing_anew_lets_others_in() {
    let got_in: Vec<u64> =
        (0..8).map(looks_while_packing).take_while(|looks| *looks <= 2).collect();
    assert!(got_in.len() < 8, "looks of another thread during each packing: {got_in:?}");
}

/// Fills a cache until all values are packed again. Returns the number of accesses by another
/// thread during the packing.
fn looks_while_packing(round: u64) -> u64 {
    let options =
        Options { level: Some(12), ..options(16 << 20, "zstd", DictionarySource::Trained) };
    let cache = Cache { kept: RawLruCache::new(options).unwrap(), compares_inside: true };
    let mut rng = fastrand::Rng::with_seed(seed(13 + round));
    let mut documents = |len: usize| -> Vec<u8> {
        let more = std::iter::repeat_with(|| document(&mut rng)).flat_map(String::into_bytes);
        more.take(len).collect()
    };
    assert!(cache.put(&Key(0, "large".into()), &documents(1 << 20)).1);
    let (mut nth, mut looks) = (0, 0);
    let (is_done, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                cache.kept.len();
                count.fetch_add(1, Relaxed);
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        // The call that trains the dictionary packs all values again.
        while cache.kept.stats().dictionary == 0 {
            nth += 1;
            let (key, value) = (Key(nth, nth.to_string()), documents(1 << 10));
            assert!(nth < 50_000, "no dictionary pays: {:?}", cache.kept.stats());
            let before = count.load(Relaxed);
            assert!(cache.put(&key, &value).1);
            looks = count.load(Relaxed) - before;
        }
        is_done.store(true, Relaxed);
    });
    cache.kept.check();
    looks
}

/// A child can unpack removed values whose coder was replaced.
#[test]
fn a_child_unpacks_with_a_coder_that_was_replaced() {
    let cache = Cache::new(4 << 20, "zstd", DictionarySource::Trained);
    let large = Key(1 << 20, "large".into());
    let text: Vec<u8> = (0..900_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    assert!(cache.put(&large, &text).1);
    let (_, packed) = cache
        .ask(&large, |compare, verdicts| cache.kept.get(large.0, compare, verdicts, false))
        .unwrap();
    let packed = packed.unwrap();
    let mut rng = fastrand::Rng::with_seed(seed(12));
    let mut nth = 0;
    while cache.kept.stats().dictionary == 0 {
        nth += 1;
        assert!(nth < 50_000, "no dictionary pays: {:?}", cache.kept.stats());
        cache.put(&Key(nth, nth.to_string()), document(&mut rng).as_bytes());
    }
    while cache.remove_oldest().is_some() {}
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let unpack = || {
            while !stops.load(Relaxed) {
                assert_eq!(packed.value().unwrap(), text);
            }
        };
        for _ in 0..2 {
            scope.spawn(unpack);
        }
        for _ in 0..20 {
            in_child(|| assert_eq!(packed.value().unwrap(), text));
        }
        stops.store(true, Relaxed);
    });
}

/// A dictionary that is trained while the cache is full evicts values to stay within the limit.
#[test]
fn a_dictionary_that_waits_is_within_the_limit() {
    const LIMIT: usize = 4 << 20;
    for round in 0..8 {
        let mut rng = fastrand::Rng::with_seed(seed(15 + round));
        let cache = Cache::new(LIMIT, "zstd", DictionarySource::Trained);
        let mut nth = 0;
        let mut put = |value: &[u8]| {
            nth += 1;
            assert!(cache.put(&Key(nth, nth.to_string()), value).1);
            let stats = cache.kept.stats();
            assert!(stats.held <= LIMIT, "{stats:?}");
            stats.held
        };
        for _ in 0..60 {
            let noise: Vec<u8> = (0..LIMIT / 64).map(|_| rng.u8(..)).collect();
            put(&noise);
        }
        // Stores empty values, which use the memory that the cache keeps free for growing
        // structures.
        for _ in 0..80 {
            let mut held = put(document(&mut rng).repeat(20).as_bytes());
            while held + 200 < LIMIT {
                held = put(b"");
            }
        }
        cache.kept.check();
    }
}

/// Even if the parent was packing values again at the fork, the child releases the memory of
/// removed values.
#[test]
fn a_child_of_a_parent_that_packs_again_shrinks() {
    let options =
        Options { level: Some(12), ..options(16 << 20, "zstd", DictionarySource::Trained) };
    let cache = Cache { kept: RawLruCache::new(options).unwrap(), compares_inside: true };
    let mut rng = fastrand::Rng::with_seed(seed(16));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut nth = 0;
            while cache.kept.stats().dictionary == 0 {
                nth += 1;
                assert!(nth < 50_000, "no dictionary pays: {:?}", cache.kept.stats());
                let text: String = (0..3).map(|_| document(&mut rng)).collect();
                cache.put(&Key(nth, nth.to_string()), text.as_bytes());
            }
            is_done.store(true, Relaxed);
        });
        while cache.kept.stats().dictionary == 0 && !is_done.load(Relaxed) {
            std::thread::sleep(Duration::from_micros(100));
        }
        in_child(|| {
            let before = cache.kept.len();
            while cache.kept.len() > 100 {
                assert!(cache.remove_oldest().is_some());
            }
            let held = cache.kept.stats().held;
            cache.kept.check();
            cache.kept.clear(&mut Departed::default());
            let empty = cache.kept.stats().held;
            assert!(held < empty + 300_000, "{held} of 100 of {before} values, {empty} of none");
        });
    });
}
