//! An LRU cache of JSON documents. In the same memory, it holds at least twice the documents of an
//! uncompressed cache.
//!
//! Single documents are too small to compress well, so the cache trains a dictionary with the first
//! documents. At its limit, the cache evicts the least recently used documents.
//!
//! `cargo run --release -p uzram --example documents`
#![allow(clippy::unwrap_used, reason = "an example: what fails ends it")]

mod measured;

use measured::{Amount, anonymous_bytes, measured, mib};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use uzram::{Error, LruCache, LruOptions};

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

/// A map of uncompressed documents that evicts in the same order as the cache.
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

fn run(amount: Amount) -> Result<(), Error> {
    // The limit is at least 8 MiB, because the training of the dictionary needs memory.
    let limit = amount.of(64 << 20).max(8 << 20);
    let last = amount.of(1 << 19).max(1 << 16) as u64;
    let (cache, taken) = measured(|| {
        let cache = LruCache::new(LruOptions::new(limit))?;
        (0..last).try_for_each(|id| cache.put(id, document(id).as_bytes()))?;
        Ok::<_, Error>(cache)
    });
    let cache = cache?;
    let before = anonymous_bytes();
    let mut plain = Plain::default();
    while anonymous_bytes().saturating_sub(before) < taken {
        let first = plain.documents.len() as u64;
        (first..first + 256).for_each(|id| plain.insert(id, document(id)));
    }
    let (kept, plainly) = (cache.len(), plain.documents.len());
    println!(
        "documents kept in {:.1} MiB: {kept}, and {plainly} as they are: {:.2} times as many",
        mib(taken),
        kept as f64 / plainly as f64,
    );
    assert!(kept >= 2 * plainly, "{kept} documents, and {plainly} as they are");
    for id in (0..last).step_by(7) {
        match cache.get(&id)? {
            Some(text) => assert_eq!(text, document(id).as_bytes()),
            None => assert!(id < last - kept as u64, "{id} is younger than what was kept"),
        }
    }
    assert!(plain.documents.iter().all(|(&id, (text, _))| *text == document(id)));
    Ok(())
}

fn main() -> Result<(), Error> {
    run(Amount::Full)
}

#[test]
fn it_keeps_twice_as_many() {
    run(Amount::Quick).unwrap();
}
