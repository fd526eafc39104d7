//! Measures the memory of the process for the examples, as the system counts it.

use std::fs;

/// The amount of work that an example does.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "a test has it quick")]
pub enum Amount {
    /// A small amount for tests: a second or two.
    Quick,
    /// The amount for a run of the program.
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
/// that `work` reuses after an earlier free is not counted. So the variant without uzram is
/// measured second. Its memory can only be underestimated.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = anonymous_bytes();
    let made = work();
    (made, anonymous_bytes().saturating_sub(before))
}

pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}
