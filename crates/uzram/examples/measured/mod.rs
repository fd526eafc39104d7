//! Measures for the examples how much memory the process has according to the kernel.

use std::fs;

/// The amount of work that an example does.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "a test has it quick")]
pub enum Amount {
    /// An amount for tests, which takes a second or two.
    Quick,
    /// The amount for a normal run of the example.
    Full,
}

impl Amount {
    /// Returns `full`, or a sixteenth of `full` in a quick run.
    pub fn of(self, full: usize) -> usize {
        if self == Amount::Full { full } else { full / 16 }
    }
}

/// Returns the size of the process's anonymous memory in bytes: heap, stacks, pools.
pub fn anonymous_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").expect("Linux tells what it counts");
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("a number of KiB") << 10
}

/// Returns the result of `work`, and the growth of anonymous memory during `work` in bytes. Memory
/// that `work` reuses after an earlier free is not counted. Measure the variant without uzram
/// second, so that this error can only favour that variant.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = anonymous_bytes();
    let made = work();
    (made, anonymous_bytes().saturating_sub(before))
}

pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}
