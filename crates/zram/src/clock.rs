//! The clock by which slots are young or old.

use rustix::time::{ClockId, clock_gettime};

/// Seconds since the machine was started, those asleep included, as the kernel's device tells them.
pub(crate) fn seconds() -> u32 {
    clock_gettime(ClockId::Boottime).tv_sec as u32
}
