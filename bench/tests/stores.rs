//! Every store returns what was stored in it, after any sequence of operations.
#![allow(clippy::unwrap_used)]

use bench::contents::{Blobs, Contents};
use bench::stores::{DeviceStore, Kept, Store, StoreKind};
use fastrand::Rng;
use zram::Compaction;

/// Returns the random numbers of a test, seeded by `UZRAM_SEED` or by the test's own seed, which is
/// printed.
fn rng(own: u64) -> Rng {
    let seed = std::env::var("UZRAM_SEED").map_or(own, |seed| seed.parse().unwrap());
    println!("UZRAM_SEED={seed}");
    Rng::with_seed(seed)
}

/// Returns blobs of random lengths, and of lengths near the limits of classes and pages.
fn blobs(rng: &mut Rng) -> Blobs {
    const EDGES: [usize; 6] = [0, 1, 8, 32, 4080, 4096];
    let mut blobs = Blobs::default();
    for nth in 0..2000 {
        let len = match nth % 4 {
            0 => (EDGES[rng.usize(..EDGES.len())] + rng.usize(..3)).saturating_sub(1).min(4096),
            _ => rng.usize(0..=4096),
        };
        let blob: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        blobs.push(&blob);
    }
    blobs
}

fn work<S: Store, C: Contents>(kept: &mut Kept<'_, S, C>, rng: &mut Rng) {
    kept.fill().unwrap();
    kept.verify().unwrap();
    for slot in (0..kept.slots()).filter(|slot| slot % 3 > 0) {
        kept.drop_slot(slot).unwrap();
    }
    kept.store_mut().purge().unwrap();
    kept.verify().unwrap();
    kept.churn(rng, 5000).unwrap();
    kept.verify().unwrap();
}

#[test]
fn blobs_come_back_from_every_store() {
    let mut rng = rng(7);
    let blobs = blobs(&mut rng);
    for kind in StoreKind::OURS.into_iter().chain(StoreKind::RIVALS) {
        if !kind.is_here() {
            assert!(kind.make(1).is_err());
            continue;
        }
        let mut kept = Kept::new(&blobs, |slots| kind.make(slots)).unwrap();
        work(&mut kept, &mut rng);
        assert_eq!(kept.store().counted().is_some(), StoreKind::OURS.contains(&kind));
    }
}

#[test]
fn pages_come_back_from_the_device() {
    let mut rng = rng(8);
    let mut pages = bench::aligned::AlignedBuf::zeroed(1 << 20);
    rng.fill(&mut pages[..1 << 19]);
    let make = |slots| DeviceStore::new(slots, Compaction::Auto);
    let mut kept = Kept::new(&pages, make).unwrap();
    work(&mut kept, &mut rng);
    assert!(kept.store().counted().is_some());
}

#[test]
fn what_was_not_stored_is_found_out() {
    let blobs = blobs(&mut rng(9));
    let mut kept = Kept::new(&blobs, |slots| StoreKind::Glibc.make(slots)).unwrap();
    kept.fill().unwrap();
    let slot = (0..blobs.len()).find(|&slot| !blobs.get(slot).is_empty()).unwrap();
    kept.store_mut().store(slot, b"other bytes").unwrap();
    assert!(kept.verify().unwrap_err().to_string().contains(&format!("slot {slot}")));
}
