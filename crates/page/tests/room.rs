//! Tests `room` in a process whose address space is limited. This test runs in a separate process,
//! so that no other test maps memory at the same time.
#![allow(unsafe_code, clippy::unwrap_used)]

use page::room;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn what_is_left_is_known() {
    let before = getrlimit(Resource::As);
    // Without a limit, sets one above all addresses in use. Sanitizers map most of the address
    // space.
    let limit = before.current.or(before.maximum).unwrap_or(1 << 50);
    setrlimit(Resource::As, Rlimit { current: Some(limit), ..before }).unwrap();
    let all = room::left().unwrap();
    let len = 1 << 30;
    // SAFETY: no other code uses the new mapping.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    let left = room::left().unwrap();
    // The test harness can also map some memory.
    assert!(left < all - len / 2 && left > all - 2 * len, "{left} of {all}");
    // SAFETY: the range was mapped above.
    assert_eq!(unsafe { libc::munmap(start, len) }, 0);
    assert!(room::left().unwrap() > left + len / 2);
}
