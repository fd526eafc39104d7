//! The only time limits that can make a test fail. A test reaches its time limit only if it hangs.

use std::thread;
use std::time::{Duration, Instant};

use crate::setting;

/// Returns the time that tests wait for a condition. The time is 5 minutes, or the number of
/// seconds in the variable `UZRAM_PATIENCE`.
pub fn patience() -> Duration {
    Duration::from_secs(setting("UZRAM_PATIENCE", 300))
}

/// Waits until `is_so` returns true. After [`patience`], panics with the message `what`.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    until_with(Duration::from_millis(5), what, is_so);
}

/// Does the same as [`until`], with the pause `pause` between two attempts. `is_so` is allowed to
/// do work, too.
pub fn until_with(pause: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patience(), "waited {:?} for this: {what}", begun.elapsed());
        thread::sleep(pause);
    }
}

/// Runs `work`, and panics if its duration reaches `most`. A wait that the product itself ends
/// after `most` is detected in this way. Tests check no other duration.
pub fn within<R>(most: Duration, work: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let done = work();
    assert!(begun.elapsed() < most, "it took {:?}: something was waited for", begun.elapsed());
    done
}

/// Repeats `work` for at least `time`, and until `has_come` returns true. On a busy machine, the
/// awaited event may occur late. Returns the last result of `has_come`, which is false only if
/// [`patience`] ended first.
pub fn load(time: Duration, mut has_come: impl FnMut() -> bool, mut work: impl FnMut()) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time || (!has_come() && begun.elapsed() < patience()) {
        work();
    }
    has_come()
}
