//! Tests a space with more sections than fit in the first tables of the address index. The segments
//! are small.
#![allow(unsafe_code, clippy::unwrap_used)]

use page::{Config, Error, ExtentId, Request, Space, Supply, page_size};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use testkit::supply::SmallSegments;

/// The number of sections: one more than half of 4,096 buckets, so the eighth table is in use.
const SECTIONS: usize = 2049;

/// Allocates an extent that fills its section's segment.
fn fill_one(space: &Space<()>) -> Result<ExtentId, Error> {
    space.alloc(((1 << 20) / page_size()) as u32, 0)
}

fn assert_found(space: &Space<()>, id: ExtentId) {
    let extent = space.extent(id);
    let bytes = extent.pages() as usize * page_size();
    let address = space.address(extent.start()).addr().get();
    for at in [0, 1, bytes / 2, bytes - 1] {
        let found = (space.offset_of(address + at), space.extent_at(address + at));
        assert_eq!(found.0, Some(extent.start() + at as u64));
        assert_eq!(found.1.map(|(id, _)| id), Some(id));
    }
}

#[test]
fn all_are_found_by_address_and_again_when_they_come_back() {
    let supply = Some(Arc::new(SmallSegments::default()) as Arc<dyn Supply>);
    let space = Space::new(Config { by_address: true, supply, ..Config::default() }).unwrap();
    let before = space.metadata_bytes();
    for round in 0..2 {
        let ids: Vec<_> = (0..SECTIONS).map(|_| fill_one(&space).unwrap()).collect();
        ids.iter().for_each(|&id| assert_found(&space, id));
        space.check();
        if round == 0 {
            assert!(
                space.metadata_bytes() >= before + 2 * 4 * 4096,
                "the larger tables are counted"
            );
        }
        // The reverse order gives the sections other addresses in the next round.
        // SAFETY: no thread uses the extent's addresses.
        ids.iter().rev().for_each(|&id| unsafe { space.free(id) });
        space.check();
    }
}

/// The bytes of the address index's second table, of 128 buckets.
const LARGER: usize = 4 * 128;

/// Grants small segments. While `refuses` is set, refuses a larger table of the address index.
#[derive(Debug, Default)]
struct NoLargerTable {
    segments: SmallSegments,
    refuses: AtomicBool,
}

impl Supply for NoLargerTable {
    fn grant(&self, request: Request) -> bool {
        let is_larger = matches!(request, Request::Allocate { bytes: LARGER });
        !(is_larger && self.refuses.load(Relaxed)) && self.segments.grant(request)
    }
}

#[test]
fn a_section_that_could_not_be_found_is_refused() {
    let supply = Arc::new(NoLargerTable::default());
    let granted = Some(supply.clone() as Arc<dyn Supply>);
    let config = Config { by_address: true, supply: granted, ..Config::default() };
    let space = Space::new(config).unwrap();
    let ids: Vec<_> = (0..32).map(|_| fill_one(&space).unwrap()).collect();
    supply.refuses.store(true, Relaxed);
    for _ in 0..3 {
        assert_eq!(fill_one(&space), Err(Error::Refused { pages: 1 }));
        space.check();
    }
    ids.iter().for_each(|&id| assert_found(&space, id));
    // SAFETY: no thread uses the extent's addresses.
    unsafe { space.free(ids[5]) };
    fill_one(&space).unwrap();
    space.check();
}
