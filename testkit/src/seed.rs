//! Seeds, and how much a test tries.

use std::time::Duration;

/// Returns the seed of a random test, printed: `UZRAM_SEED`, or the test's own.
pub fn seed(own: u64) -> u64 {
    let seed = setting("UZRAM_SEED", own);
    println!("UZRAM_SEED={seed}");
    seed
}

/// Returns the number in an environment variable, decimal or `0x` and hexadecimal, or `default`.
pub fn setting(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|error| panic!("{name}={text}: {error}"))
}

/// Returns whether more is to be tried, as `make long` does.
pub fn is_long() -> bool {
    std::env::var_os("UZRAM_LONG").is_some()
}

/// Returns `short`, in `make long` `long`.
pub fn scaled(short: usize, long: usize) -> usize {
    if is_long() { long } else { short }
}

/// Returns how long a test under load goes on.
pub fn load_time(short: Duration) -> Duration {
    if is_long() { Duration::from_secs(150) } else { short }
}
