//! An LRU cache of JSON documents that holds at least twice as many documents in the same memory.
//!
//! Single documents are too small to compress well, so a dictionary is trained with the first of
//! them. The compressed documents lie in a pool; at its limit, the oldest ones are dropped.
//!
//! `cargo run --release -p uzram --example documents`
#![allow(clippy::unwrap_used, reason = "an example: what fails ends it")]

mod measured;

use measured::{Amount, anonymous_bytes, measured, mib};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use uzram::zcomp::{Stream, train};
use uzram::{Dictionary, Error, Handle, PageConfig, Params, Pool, PoolConfig, page_size};

/// The maximum size of a document, in bytes.
const DOCUMENT_MAX: usize = 4096;
/// The number of documents that train the dictionary.
const SAMPLES: u64 = 2000;

/// Returns an order of a user, in the form in which a shop's service would cache it.
fn document(id: u64) -> String {
    let mix = |n: u64| (id ^ n << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let pick = |n: u64, from: &[&'static str]| from[mix(n) as usize % from.len()];
    let line = |line: u64| {
        json!({
            "sku": format!("{:012x}", mix(line + 9)),
            "title": pick(line + 30, &["ceramic mug", "desk lamp", "notebook", "oak shelf"]),
            "colour": pick(line + 20, &["blue", "red", "green", "grey", "white"]),
            "quantity": 1 + mix(line + 3) % 9,
            "unit_price": { "amount": mix(line) % 100_000, "currency": "EUR" },
            "in_stock": mix(line + 40) % 3 != 0,
        })
    };
    let user = mix(2) % 1_000_000;
    let name = pick(3, &["Ada", "Ben", "Chloe", "Dan", "Eva", "Finn"]);
    let order = json!({
        "order_id": id,
        "customer": {
            "id": user,
            "name": name,
            "email": format!("{}{user}@example.com", name.to_lowercase()),
            "country": pick(5, &["DE", "FR", "NL", "IT", "PT"]),
        },
        "status": pick(6, &["paid", "shipped", "delivered", "returned"]),
        "created_at": format!("2026-{:02}-{:02}", 1 + mix(7) % 12, 1 + mix(8) % 28),
        "lines": (0..2 + mix(1) % 6).map(line).collect::<Vec<_>>(),
        "note": null,
    });
    order.to_string()
}

/// A document's handle in the pool, its length and the time of its last use.
struct Place {
    handle: Handle,
    /// The length of the document before compression, in bytes.
    len: usize,
    /// The tick of the last use.
    tick: u64,
}

/// The compressed documents by number. If memory is short, the least recently used document is
/// dropped.
struct Documents {
    pool: Pool,
    stream: Box<dyn Stream>,
    places: HashMap<u64, Place>,
    by_age: BTreeMap<u64, u64>,
    tick: u64,
}

impl Documents {
    /// Returns a cache whose compressed documents take at most `bytes` bytes.
    fn new(bytes: usize, dictionary: Dictionary) -> Result<Self, Error> {
        let pages = PageConfig { limit: Some(bytes / page_size()), ..PageConfig::default() };
        let pool = Pool::new(PoolConfig { pages, ..PoolConfig::default() })?;
        let params = Params { level: Some(3), dictionary: Some(dictionary) };
        let stream = uzram::by_name("zstd")?.prepare(&params, DOCUMENT_MAX)?.stream()?;
        let (places, by_age) = (HashMap::new(), BTreeMap::new());
        Ok(Documents { pool, stream, places, by_age, tick: 0 })
    }

    /// Stores a document, and drops the oldest documents if memory is short.
    fn insert(&mut self, id: u64, text: &str) -> Result<(), Error> {
        let mut compressed = [0; 2 * DOCUMENT_MAX];
        let len = self.stream.compress(text.as_bytes(), &mut compressed)?.unwrap();
        self.remove(id)?;
        let handle = loop {
            match self.pool.store(&compressed[..len]) {
                Err(error) if error.is_limit() && !self.places.is_empty() => self.drop_oldest()?,
                stored => break stored?,
            }
        };
        self.tick += 1;
        self.places.insert(id, Place { handle, len: text.len(), tick: self.tick });
        self.by_age.insert(self.tick, id);
        Ok(())
    }

    /// Returns a document, and marks it as the most recently used one.
    fn get(&mut self, id: u64) -> Result<Option<String>, Error> {
        let Some(place) = self.places.get_mut(&id) else { return Ok(None) };
        let mut text = vec![0; place.len];
        self.stream.decompress(&self.pool.read(&place.handle)?, &mut text)?;
        self.by_age.remove(&place.tick);
        self.tick += 1;
        place.tick = self.tick;
        self.by_age.insert(self.tick, id);
        Ok(Some(String::from_utf8(text).unwrap()))
    }

    fn remove(&mut self, id: u64) -> Result<(), Error> {
        let Some(place) = self.places.remove(&id) else { return Ok(()) };
        self.by_age.remove(&place.tick);
        Ok(self.pool.free(place.handle)?)
    }

    fn drop_oldest(&mut self) -> Result<(), Error> {
        let (_, &id) = self.by_age.first_key_value().unwrap();
        self.remove(id)
    }
}

/// Uncompressed documents, in the same kind of cache.
#[derive(Default)]
struct Plain {
    documents: HashMap<u64, (String, u64)>,
    by_age: BTreeMap<u64, u64>,
}

impl Plain {
    fn insert(&mut self, id: u64, text: String) {
        self.documents.insert(id, (text, id));
        self.by_age.insert(id, id);
    }
}

fn trained() -> Result<Dictionary, Error> {
    // All samples have the same length: shorter documents are padded, longer ones are cut.
    const SAMPLE: usize = 1024;
    let mut samples = Vec::new();
    for id in 0..SAMPLES {
        samples.extend(document(id).bytes().chain(std::iter::repeat(b' ')).take(SAMPLE));
    }
    Ok(train(&samples, SAMPLE, 16 << 10)?)
}

fn run(amount: Amount) -> Result<(), Error> {
    let dictionary = trained()?;
    let limit = amount.of(64 << 20);
    let last = amount.of(1 << 19) as u64;
    let (cache, taken) = measured(|| {
        let mut cache = Documents::new(limit, dictionary)?;
        for id in 0..last {
            cache.insert(id, &document(id))?;
        }
        Ok::<_, Error>(cache)
    });
    let mut cache = cache?;
    let before = anonymous_bytes();
    let mut plain = Plain::default();
    while anonymous_bytes().saturating_sub(before) < taken {
        let first = plain.documents.len() as u64;
        (first..first + 256).for_each(|id| plain.insert(id, document(id)));
    }
    let (kept, plainly) = (cache.places.len(), plain.documents.len());
    println!(
        "documents kept in {:.1} MiB: {kept}, and {plainly} as they are: {:.2} times as many",
        mib(taken),
        kept as f64 / plainly as f64,
    );
    assert!(kept >= 2 * plainly, "{kept} documents, and {plainly} as they are");
    for id in (0..last).step_by(7) {
        match cache.get(id)? {
            Some(text) => assert_eq!(text, document(id)),
            None => assert!(id < last - kept as u64, "{id} is younger than what was kept"),
        }
    }
    assert!(plain.documents.iter().all(|(&id, (text, _))| *text == document(id)));
    while !cache.places.is_empty() {
        cache.drop_oldest()?;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    run(Amount::Full)
}

#[test]
fn it_keeps_twice_as_many() {
    run(Amount::Quick).unwrap();
}
