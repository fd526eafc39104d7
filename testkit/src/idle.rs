//! Slots that are old and slots that are young, whatever time goes by between.

use rustix::time::{ClockId, clock_gettime};
use std::thread;
use std::time::Duration;
use zram::Device;

/// Seconds of the clock by which slots are young or old.
pub fn boot_seconds() -> u32 {
    clock_gettime(ClockId::Boottime).tv_sec as u32
}

/// Waits until what is accessed from now on differs by a second at least; the last one of what was
/// accessed before.
pub fn next_second() -> u32 {
    let last = boot_seconds();
    while boot_seconds() < last + 2 {
        thread::sleep(Duration::from_millis(20));
    }
    last
}

/// Marks what was accessed up to that second, which is past, and nothing else.
pub fn mark_idle_up_to(device: &Device, last: u32) {
    loop {
        let now = boot_seconds();
        device.mark_idle_older(u64::from(now - last - 1)).unwrap();
        // Where the next second has begun meanwhile, some more may be marked.
        if boot_seconds() == now {
            return;
        }
    }
}
