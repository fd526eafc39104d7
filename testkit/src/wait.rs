//! The only clocks by which a test may fail, and only of what hangs.

use std::thread;
use std::time::{Duration, Instant};

use crate::setting;

/// Returns how long is waited for what must come, however slow the machine is: 5 minutes, or as
/// many seconds as `UZRAM_PATIENCE` says.
pub fn patience() -> Duration {
    Duration::from_secs(setting("UZRAM_PATIENCE", 300))
}

/// Waits until it is so, and panics with `what` if it never is.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    until_with(Duration::from_millis(5), what, is_so);
}

/// The same with another pause between two looks, in which there may be work, too.
pub fn until_with(pause: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patience(), "waited {:?} for this: {what}", begun.elapsed());
        thread::sleep(pause);
    }
}

/// Works, and panics if it took as long as `most`: where that is a time after which the product
/// itself gives up what `work` is not to wait for, which there is no other sign of. Nothing else is
/// held against a clock.
pub fn within<R>(most: Duration, work: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let done = work();
    assert!(begun.elapsed() < most, "it took {:?}: something was waited for", begun.elapsed());
    done
}

/// Works for `time` at least, and goes on until it has come about what a test is for: a machine may
/// be busy. Whether it has is returned, as it never does where patience ends.
pub fn load(time: Duration, mut has_come: impl FnMut() -> bool, mut work: impl FnMut()) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time || (!has_come() && begun.elapsed() < patience()) {
        work();
    }
    has_come()
}
