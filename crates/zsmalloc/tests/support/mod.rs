//! What tests of loads that change share: seeds, contents that tell whose they are, and sizes that
//! shift.
#![allow(dead_code, clippy::unwrap_used)]

pub mod child;
pub mod handles;
pub mod rounds;

use fastrand::Rng;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Set for `make long`.
pub fn is_long() -> bool {
    std::env::var_os("UZRAM_LONG").is_some()
}

/// How long a test under load goes on.
pub fn load_time(short: Duration) -> Duration {
    if is_long() { Duration::from_secs(150) } else { short }
}

/// The number in an environment variable, or `default`.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// The seed of a test, printed: `UZRAM_SEED`, or its own.
pub fn seed(own: u64) -> u64 {
    let seed = setting("UZRAM_SEED", own);
    println!("seed {seed}");
    seed
}

/// Bytes that follow from a stamp and their number, and differ from those of any other.
pub fn stamped(stamp: u64, len: usize) -> Vec<u8> {
    let mut state = (stamp ^ (len as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        bytes.extend_from_slice(&(state >> 8).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Sizes that objects have for a while: what decides which classes pay.
#[derive(Clone, Debug)]
pub struct Sizes(RangeInclusive<usize>);

impl Sizes {
    /// Around one size, in some band, or any up to `largest`.
    pub fn any(rng: &mut Rng, largest: usize) -> Self {
        let middle = rng.usize(1..=largest);
        let spread = [0, 4, 60, largest / 6, largest][rng.usize(..5)];
        Sizes(middle.saturating_sub(spread).max(1)..=(middle + spread).min(largest))
    }

    pub fn pick(&self, rng: &mut Rng) -> usize {
        rng.usize(self.0.clone())
    }

    /// The smallest and the largest in one number, to be handed to threads.
    pub fn to_bits(&self) -> u64 {
        (*self.0.start() as u64) << 32 | *self.0.end() as u64
    }

    pub fn from_bits(bits: u64) -> Self {
        Sizes((bits >> 32) as usize..=bits as u32 as usize)
    }
}

/// Tells other threads to stop when it goes, also when what went before it panicked.
pub struct Stop<'s>(pub &'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
