//! Compares `LruCache` with a map and a list of its keys in the order of use.
#![allow(clippy::unwrap_used, reason = "a test")]

use lru::{DictionarySource, Error, Key, LruCache, Options};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use testkit::child::in_child;
use testkit::{seed, seed_of};

/// The keys and values that a cache must hold.
#[derive(Default)]
struct Model {
    values: HashMap<String, Vec<u8>>,
    /// The keys, the least recently used first.
    order: VecDeque<String>,
}

impl Model {
    fn remove(&mut self, key: &str) -> Option<Vec<u8>> {
        self.order.retain(|kept| kept != key);
        self.values.remove(key)
    }

    fn put(&mut self, key: &str, value: Vec<u8>) {
        self.remove(key);
        self.order.push_back(key.to_owned());
        self.values.insert(key.to_owned(), value);
    }

    fn touch(&mut self, key: &str) {
        if let Some(value) = self.remove(key) {
            self.put(key, value);
        }
    }

    fn pop_oldest(&mut self) -> Option<(String, Vec<u8>)> {
        let key = self.order.pop_front()?;
        let value = self.values.remove(&key)?;
        Some((key, value))
    }
}

type Evicted = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A cache, its model, and the evicted values that the model still holds.
struct Pair {
    cache: LruCache<String>,
    model: Model,
    evicted: Evicted,
}

impl Pair {
    fn new(options: Options) -> Self {
        let evicted = Evicted::default();
        let log = evicted.clone();
        let cache = LruCache::new(options).unwrap();
        let cache = cache.on_evict(move |key, value| log.lock().unwrap().push((key, value)));
        Pair { cache, model: Model::default(), evicted }
    }

    /// Stores a value. The evicted values must be those that were least recently used.
    fn put(&mut self, key: &str, value: Vec<u8>) {
        let old = self.model.remove(key);
        match self.cache.put(key.to_owned(), &value) {
            Ok(()) => {
                for evicted in self.evicted.lock().unwrap().drain(..) {
                    assert_eq!(self.model.pop_oldest(), Some(evicted));
                }
                self.model.put(key, value);
            }
            Err(Error::NoRoom { bytes, limit }) => {
                assert_eq!((bytes, limit), (value.len(), self.cache.stats().limit));
                assert!(value.len() > limit / 4, "{bytes} bytes fit in {limit}");
                assert!(self.evicted.lock().unwrap().is_empty(), "evicted for nothing");
                old.into_iter().for_each(|old| self.model.put(key, old));
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn step(&mut self, rng: &mut fastrand::Rng) {
        let key = rng.u32(..300).to_string();
        let known = self.model.values.get(&key).cloned();
        let cache = &self.cache;
        match rng.u32(..20) {
            0..9 => self.put(&key, value(rng)),
            9..13 => {
                assert_eq!(cache.get(&*key).unwrap(), known);
                self.model.touch(&key);
            }
            13 => {
                assert_eq!(cache.peek(&key).unwrap(), known);
                assert_eq!(cache.contains(&key), known.is_some());
            }
            14 | 15 => {
                let mut out = vec![0; rng.usize(..2000)];
                let touches = rng.bool();
                let found = match touches {
                    true => cache.get_into(&key, &mut out),
                    false => cache.peek_into(&key, &mut out),
                };
                assert_eq!(found.unwrap(), known.as_ref().map(Vec::len));
                let known = known.unwrap_or_default();
                let len = known.len().min(out.len());
                assert_eq!(out[..len], known[..len]);
                assert!(out[len..].iter().all(|byte| *byte == 0));
                if touches {
                    self.model.touch(&key);
                }
            }
            16 => assert_eq!(cache.remove(&key), self.model.remove(&key).is_some()),
            17 => assert_eq!(cache.pop(&key).unwrap(), self.model.remove(&key)),
            18 => assert_eq!(cache.pop_oldest().unwrap(), self.model.pop_oldest()),
            _ if rng.u32(..50) == 0 => {
                cache.clear();
                self.model = Model::default();
            }
            _ => assert!(cache.keys().iter().eq(&self.model.order)),
        }
        let stats = self.cache.stats();
        assert!(stats.held <= stats.limit, "{stats:?}");
        assert_eq!(stats.entries, self.model.values.len());
        if rng.u32(..200) == 0 {
            self.cache.check();
        }
    }
}

/// Returns a value: mostly a small text, and rarely noise that might not fit into the cache.
fn value(rng: &mut fastrand::Rng) -> Vec<u8> {
    match rng.u32(..60) {
        0 => (0..rng.usize(..700_000)).map(|_| rng.u8(..)).collect(),
        1..20 => (0..rng.usize(..12_000)).map(|_| rng.u8(..)).collect(),
        _ => (0..rng.u32(..200)).flat_map(|n| (n * n).to_string().into_bytes()).collect(),
    }
}

#[test]
fn it_holds_the_same_values_as_a_model() {
    for (nth, limit) in [700 << 10, 1 << 20, 3 << 20].into_iter().enumerate() {
        for (codec, dictionary) in [
            ("zstd", DictionarySource::Trained),
            ("lz4", DictionarySource::Trained),
            ("zstd", DictionarySource::None),
        ] {
            let mut rng = fastrand::Rng::with_seed(seed(1).wrapping_add(nth as u64));
            let algorithm = zcomp::by_name(codec).unwrap();
            let mut pair = Pair::new(Options { algorithm, dictionary, ..Options::new(limit) });
            (0..6000).for_each(|_| pair.step(&mut rng));
            assert!(pair.cache.stats().evictions > 0 || limit > 2 << 20);
            pair.cache.check();
        }
    }
}

#[test]
fn keys_count_towards_the_limit() {
    let cache = LruCache::new(Options::new(2 << 20)).unwrap();
    let before = cache.stats().held;
    cache.put("k".repeat(500_000), b"small").unwrap();
    assert!(cache.stats().held - before >= 500_000);
    cache.put("k".repeat(1_500_000), b"small").unwrap();
    assert_eq!((cache.len(), cache.stats().evictions), (1, 1));
    let error = cache.put("k".repeat(3 << 20), b"small").unwrap_err();
    assert_eq!(error, Error::NoRoom { bytes: 5, limit: 2 << 20 });
    let bytes = (String::with_capacity(20), [vec![0_u8; 30], vec![]], Box::<str>::from("abc"));
    assert_eq!(bytes.heap_bytes(), 53);
    cache.check();
}

/// Each key is dropped exactly once, and without the lock.
#[test]
fn dropped_keys_may_call_the_cache() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);

    #[derive(Clone)]
    struct Calling(u32, std::sync::Weak<LruCache<Calling>>);

    impl PartialEq for Calling {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    impl Eq for Calling {}

    impl std::hash::Hash for Calling {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    impl Key for Calling {}

    impl Drop for Calling {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Relaxed);
            if let Some(cache) = self.1.upgrade() {
                let _len = cache.len();
            }
        }
    }

    let cache = Arc::new(LruCache::new(Options::new(1 << 20)).unwrap());
    let key = |nth| Calling(nth, Arc::downgrade(&cache));
    for nth in 0..4000 {
        let noise = fastrand::Rng::with_seed(seed_of(nth.into())).u128(..).to_ne_bytes();
        cache.put(key(nth), &noise.repeat(40)).unwrap();
        cache.put(key(nth), &noise).unwrap();
    }
    assert!(cache.remove(&key(3999)));
    assert!(cache.pop_oldest().unwrap().is_some());
    cache.clear();
    cache.check();
    // The loop created two keys for each value; `remove` and `pop_oldest` each used one further
    // key.
    assert_eq!(DROPPED.load(Relaxed), 8002);
}

#[test]
fn threads_and_children_use_one_cache() {
    let cache = Arc::new(LruCache::new(Options::new(2 << 20)).unwrap());
    let value = |nth: u64| nth.to_string().repeat(nth as usize % 500);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed(2).wrapping_add(thread));
                for _ in 0..3000 {
                    let nth = rng.u64(..5000);
                    match cache.get(&nth).unwrap() {
                        Some(found) => assert_eq!(found, value(nth).as_bytes()),
                        None => cache.put(nth, value(nth).as_bytes()).unwrap(),
                    }
                }
            });
        }
        in_child(|| {
            cache.put(9999, b"in the child").unwrap();
            assert_eq!(cache.get(&9999).unwrap().unwrap(), b"in the child");
        });
    });
    assert!(!cache.contains(&9999));
    cache.check();
}

/// A key that claims to use this number of bytes in addition to the size of its type.
#[derive(PartialEq, Eq, Hash)]
struct Claims(usize);

impl Key for Claims {
    fn heap_bytes(&self) -> usize {
        self.0
    }
}

/// The size of a key is counted in 32 bits. A larger size would wrap to a small size.
#[test]
fn keys_that_can_not_be_counted_are_refused() {
    let limit = usize::MAX;
    let cache = LruCache::new(Options::new(limit)).unwrap();
    cache.put(Claims(3 << 30), b"counted").unwrap();
    assert!(cache.stats().held > 3 << 30);
    for bytes in [5 << 30, u32::MAX as usize, usize::MAX] {
        assert_eq!(cache.put(Claims(bytes), b"v").unwrap_err(), Error::NoRoom { bytes: 1, limit });
    }
    assert_eq!(cache.get(&Claims(3 << 30)).unwrap().unwrap(), b"counted");
    cache.check();
}

#[test]
fn a_comparison_that_panics_leaves_the_cache_whole() {
    #[derive(Clone)]
    struct Panics(u32, bool);

    impl PartialEq for Panics {
        fn eq(&self, other: &Self) -> bool {
            assert!(!self.1 && !other.1, "a comparison panics");
            self.0 == other.0
        }
    }

    impl Eq for Panics {}

    impl std::hash::Hash for Panics {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    impl Key for Panics {}

    let cache = LruCache::new(Options::new(1 << 20)).unwrap();
    cache.put(Panics(1, false), b"a value").unwrap();
    let call = |call: &dyn Fn()| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_err();
    };
    call(&|| cache.put(Panics(1, true), b"other").unwrap());
    call(&|| drop(cache.get(&Panics(1, true))));
    call(&|| assert!(cache.remove(&Panics(1, true))));
    assert_eq!(cache.get(&Panics(1, false)).unwrap().unwrap(), b"a value");
    cache.check();
}
