//! The seeds of random tests, and the number of their steps.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Returns the seed of a random test, and prints it. The seed is `UZRAM_SEED` if that variable is
/// set, else `own`.
pub fn seed(own: u64) -> u64 {
    let seed = setting("UZRAM_SEED", own);
    println!("UZRAM_SEED={seed}");
    seed
}

/// Returns a seed that differs in each run, and prints it. If the variable `UZRAM_SEED` is set, the
/// seed is its value.
pub fn random_seed() -> u64 {
    seed(RandomState::new().hash_one(0))
}

/// Returns a seed for contents number `nth`, which depends on `UZRAM_SEED`.
pub fn seed_of(nth: u64) -> u64 {
    setting("UZRAM_SEED", 0).rotate_left(32) ^ nth
}

/// Returns the number in an environment variable, or `default` if it is not set. The number is
/// decimal, or hexadecimal after `0x`.
pub fn setting(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|error| panic!("{name}={text}: {error}"))
}

/// Returns true if tests should try more cases, as in `make long`.
pub fn is_long() -> bool {
    std::env::var_os("UZRAM_LONG").is_some()
}

/// Returns `long` in `make long`, and `short` otherwise.
pub fn scaled(short: usize, long: usize) -> usize {
    if is_long() { long } else { short }
}

/// Returns the duration of a test under load.
pub fn load_time(short: Duration) -> Duration {
    if is_long() { Duration::from_secs(150) } else { short }
}
