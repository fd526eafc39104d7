//! The only time limits that can make a test fail. A test reaches them only if it hangs.

use std::thread;
use std::time::{Duration, Instant};

use crate::setting;

/// Returns how long tests wait for a condition, however slow the machine is: 5 minutes, or the
/// number of seconds in `UZRAM_PATIENCE`.
pub fn patience() -> Duration {
    Duration::from_secs(setting("UZRAM_PATIENCE", 300))
}

/// Waits until `is_so` returns true, and panics with `what` if it never does.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    until_with(Duration::from_millis(5), what, is_so);
}

/// Like [`until`], with another pause between two attempts. `is_so` may also do work.
pub fn until_with(pause: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patience(), "waited {:?} for this: {what}", begun.elapsed());
        thread::sleep(pause);
    }
}

/// Runs `work`, and panics if its duration reaches `most`. This is for cases in which the product
/// itself stops waiting after `most`, so that only the duration shows the wait. No other duration
/// is tested.
pub fn within<R>(most: Duration, work: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let done = work();
    assert!(begun.elapsed() < most, "it took {:?}: something was waited for", begun.elapsed());
    done
}

/// Repeats `work` for at least `time`, and until `has_come` returns true, because the machine may
/// be busy. Returns the last result of `has_come`, which is false if [`patience`] ended first.
pub fn load(time: Duration, mut has_come: impl FnMut() -> bool, mut work: impl FnMut()) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time || (!has_come() && begun.elapsed() < patience()) {
        work();
    }
    has_come()
}
