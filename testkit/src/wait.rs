//! The only clock by which a test may fail, and only of what hangs.

use std::thread;
use std::time::{Duration, Instant};

use crate::setting;

/// Returns how long is waited for what must come, however slow the machine is: 5 minutes, or as
/// many seconds as `UZRAM_PATIENCE` says.
pub fn patience() -> Duration {
    Duration::from_secs(setting("UZRAM_PATIENCE", 300))
}

/// Waits until it is so, and panics with `what` if it never is.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patience(), "waited {:?} for this: {what}", begun.elapsed());
        thread::sleep(Duration::from_millis(5));
    }
}
