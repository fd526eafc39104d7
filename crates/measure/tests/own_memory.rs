//! Tests the memory sizes that the kernel reports for the test's own process. This binary contains
//! no other test, because the memory that other tests allocate and free would be counted too.

#![allow(clippy::unwrap_used, reason = "tests")]

use measure::memory::{HeldMemory, ProcessMemory};

#[test]
fn touched_pages_are_seen() {
    let (before, exact) = (ProcessMemory::now(), HeldMemory::now().unwrap());
    let bytes = vec![1_u8; 64 << 20];
    let (growth, after) = (ProcessMemory::now().growth_since(&before), HeldMemory::now().unwrap());
    assert!(bytes.iter().all(|&byte| byte == 1));
    assert!(growth.unwrap() > 48 << 20, "{growth:?}");
    assert!(after.held >= exact.held + (48 << 20), "{exact:?} {after:?}");
    assert!(after.page_tables > 0);
}
