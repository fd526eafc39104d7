//! The seed of a random test.

/// Returns `UZRAM_SEED`, or else `own`, the test's own seed, and prints it.
pub fn seed(own: u64) -> u64 {
    let set = std::env::var("UZRAM_SEED").ok();
    let seed = set.map_or(own, |seed| seed.parse().expect("UZRAM_SEED is a number"));
    println!("UZRAM_SEED={seed}");
    seed
}
