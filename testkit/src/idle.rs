//! Distinguishes slots with old accesses from slots with recent accesses, even on a slow machine.

use rustix::time::{ClockId, clock_gettime};
use std::thread;
use std::time::Duration;
use zram::Device;

/// Returns the seconds of the clock that determines the age of slots.
pub fn boot_seconds() -> u32 {
    clock_gettime(ClockId::Boottime).tv_sec as u32
}

/// Waits until the next second begins, so that earlier and later accesses fall into different
/// seconds. Returns the last second of the earlier accesses.
pub fn next_second() -> u32 {
    let last = boot_seconds();
    while boot_seconds() < last + 2 {
        thread::sleep(Duration::from_millis(20));
    }
    last
}

/// Marks exactly those slots as idle whose last access was in the second `last` or earlier. The
/// second `last` must have passed.
pub fn mark_idle_up_to(device: &Device, last: u32) {
    loop {
        let now = boot_seconds();
        device.mark_idle_older(u64::from(now - last - 1)).unwrap();
        // If the next second began during the call, more slots may be marked, so the call is
        // repeated.
        if boot_seconds() == now {
            return;
        }
    }
}
